"""SUT of ONNX Runtime: models that PyTorch exports, and language models of onnxruntime-genai."""
