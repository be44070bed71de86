"""What snippets that run on a simulated machine begin with, with the shim or without."""

COMMON = """
import pynvml as n

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

def error(function, *arguments):
    "The NVML error that the call raises; 0 if it raises none."
    try:
        function(*arguments)
    except n.NVMLError as raised:
        return raised.value
    return 0

def gpus():
    "Initialise NVML; a handle for each GPU."
    n.nvmlInit()
    return [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]

def faults(text):
    "Change the faults at once, so that no reader sees half of them."
    Path("/run/gpusim/faults.new").write_text(text)
    os.rename("/run/gpusim/faults.new", "/run/gpusim/faults")
"""
