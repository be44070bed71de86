"""Texts as nvidia-smi prints them, for tests of what reads them."""

from dataclasses import dataclass

_GPU = """\
	<gpu id="00000000:{bus:02X}:00.0">
		<product_name>{gpu.product}</product_name>
		<product_brand>NVIDIA</product_brand>
		<persistence_mode>{gpu.persistence}</persistence_mode>
		<mig_mode>
			<current_mig>{gpu.mig}</current_mig>
			<pending_mig>{gpu.mig}</pending_mig>
		</mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<uuid>GPU-{minor:08x}-89ab-cdef-0123-456789abcdef</uuid>
		<minor_number>{minor}</minor_number>
		<fb_memory_usage>
			<total>{gpu.total} MiB</total>
			<reserved>{gpu.reserved} MiB</reserved>
			<used>0 MiB</used>
			<free>{free} MiB</free>
		</fb_memory_usage>
		<compute_mode>{gpu.compute_mode}</compute_mode>
	</gpu>
"""


@dataclass(frozen=True)
class SmiGpu:
    product: str = "NVIDIA A100-PCIE-40GB"
    total: int = 40960
    reserved: int = 571
    mig: str = "Disabled"
    persistence: str = "Enabled"
    compute_mode: str = "Default"


def query(gpus: list[SmiGpu], minors: list[int] | None = None, driver: str = "580.65.06") -> str:
    """``nvidia-smi -q -x`` of these GPUs."""
    text = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    text += f"<nvidia_smi_log>\n\t<driver_version>{driver}</driver_version>\n"
    for place, gpu in enumerate(gpus):
        minor = minors[place] if minors else place
        text += _GPU.format(bus=place + 16, gpu=gpu, minor=minor, free=gpu.total - gpu.reserved)
    return text + "</nvidia_smi_log>\n"
