# The harness in a container. For the CPU:
#     docker build -t harness . && docker run --rm harness
#     docker run --rm harness test
# On a vendor's image for GPUs, which brings PyTorch or JAX: the build's folder is a bundle, and nothing is loaded from a network.
#     ./run.sh bundle DIR --core --python 3.12
#     docker build -t harness-gpu --build-arg BASE=<the vendor's image> DIR
#     docker run --rm --gpus all --shm-size 1g harness-gpu --python python3 --sut native-torch --scenario Offline --model mistral
# docs/use/offline.md says more.
ARG BASE=python:3.12-slim
FROM ${BASE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# torch.compile builds its kernels with a C++ compiler; images of vendors have one.
# hadolint ignore=DL3008
RUN command -v g++ >/dev/null \
    || (apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*)
WORKDIR /harness
COPY . .
# Where pip is told to look, at build time too.
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
# The core environment is made here; those of frameworks on first use, below /harness/.cache, where a volume keeps them.
RUN ./run.sh --version
ENTRYPOINT ["./run.sh"]
CMD ["--sut", "keras3-jax", "--scenario", "Offline", "--model", "mistral"]
