"""What the operating system reports of this machine and of this process. Standard library and NVML
only.
"""
