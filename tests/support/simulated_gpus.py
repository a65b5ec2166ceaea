"""A simulated NVIDIA driver, for machines without a GPU: the program nvidia-smi, and the library NVML.

The program prints a report in the format of the real one. Its processes are the lines `UUID PID MEBIBYTES` of a file,
which tests change.
"""

import shlex
import subprocess
import sys
from pathlib import Path

SIMULATED_GPUS = (
    "GPU-5a1d0000-0000-4000-8000-000000000001",
    "GPU-7c6b0000-0000-4000-8000-000000000002",
)
NAME = "Simulated H200"
PROCESSES = "processes.txt"
"""Name of the file beside the program that lists the processes."""
NVML_SOURCE = Path(__file__).with_name("simulated_nvml.c")

_GPU = """\
<gpu id="00000000:0{index}:00.0"><product_name>{name}</product_name>
<mig_mode><current_mig>Disabled</current_mig></mig_mode><mig_devices>None</mig_devices>
<uuid>{uuid}</uuid><minor_number>{index}</minor_number>
<fb_memory_usage><total>143771 MiB</total><reserved>600 MiB</reserved><used>{used} MiB</used></fb_memory_usage>
<utilization><gpu_util>{busy} %</gpu_util></utilization>
<processes>{processes}</processes></gpu>"""
_PROCESS = """\
<process_info><gpu_instance_id>N/A</gpu_instance_id><compute_instance_id>N/A</compute_instance_id>
<pid>{pid}</pid><type>C</type><process_name>simulated</process_name><used_memory>{mebibytes} MiB</used_memory>
</process_info>"""


def write_nvidia_smi(folder: Path, *, exit_code: int = 0) -> Path:
    """Write the program, and return the path of its file of processes."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = folder / PROCESSES
    processes.touch()
    words = shlex.join([sys.executable, str(Path(__file__)), str(processes), str(exit_code)])
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nexec {words}\n")
    program.chmod(0o755)
    return processes


def build_nvml(folder: Path, compiler: str) -> Path:
    """Compile the library, and return the folder for LD_LIBRARY_PATH."""
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(NVML_SOURCE)]
    subprocess.run(command, check=True)  # noqa: S603 — the C compiler
    return folder


def report(text: str) -> str:
    """Return the XML report for the text of a file of processes."""
    lines = [line.split() for line in text.splitlines() if line]
    gpus = []
    for index, uuid in enumerate(SIMULATED_GPUS):
        own = [(pid, int(mebibytes)) for owner, pid, mebibytes in lines if owner == uuid]
        found = "".join(_PROCESS.format(pid=pid, mebibytes=mebibytes) for pid, mebibytes in own)
        used = sum(mebibytes for _, mebibytes in own)
        gpus.append(
            _GPU.format(index=index, name=NAME, uuid=uuid, used=used, busy=87 if own else 0, processes=found)
        )
    return f'<?xml version="1.0" ?><nvidia_smi_log>{"".join(gpus)}</nvidia_smi_log>'


if __name__ == "__main__":
    if code := int(sys.argv[2]):
        print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        sys.exit(code)
    print(report(Path(sys.argv[1]).read_text()))
