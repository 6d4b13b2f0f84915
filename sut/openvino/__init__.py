"""SUT of OpenVINO: models that it converts from PyTorch, and language models of openvino-genai."""
