"""The command of a torchtune job, as the Trainer completes `tune run`: recipe, config and paths of the runtime."""

from collections.abc import Sequence

COMMAND = ("tune", "run")
_PATHS = ("output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file")
"""Settings of the runtime's command that are kept."""


def command(
    *,
    runtime: str,
    nodes: int,
    processes: int | str,
    gpus: int,
    arguments: Sequence[str],
    endpoint: str,
    given: Sequence[str],
) -> list[str]:
    """Return the command. `given` is that of the runtime, and `arguments` are those of the TrainJob."""
    several = nodes > 1 or (processes > 1 if isinstance(processes, int) else gpus > 1)
    rendezvous = [f"--rdzv_endpoint={endpoint}"] if several else []
    recipe, suffix = _recipe(nodes, processes, gpus, arguments)
    paths = [word for word in given if word.split("=")[0] in _PATHS]
    return [*COMMAND, *rendezvous, recipe, "--config", f"{_model(runtime)}{suffix}", *paths]


def _recipe(nodes: int, processes: int | str, gpus: int, arguments: Sequence[str]) -> tuple[str, str]:
    """Return the recipe, and the suffix of its config."""
    quantized = _is_set(arguments, "model.quantize_base") and not _is_set(arguments, "model.use_dora")
    lora = any("model.lora_attn_modules" in argument for argument in arguments)
    if nodes > 1:
        return "full_finetune_distributed", "_full_multinode"
    if processes == 1 or gpus == 1:
        if quantized or lora:
            return "lora_finetune_single_device", f"_{'qlora' if quantized else 'lora'}_single_device"
        return "full_finetune_single_device", "_full_single_device"
    if quantized or lora:
        return "lora_finetune_distributed", f"_{'qlora' if quantized else 'lora'}"
    return "full_finetune_distributed", "_full"


def _is_set(arguments: Sequence[str], name: str) -> bool:
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if separator and name in key and value.strip().lower() == "true":
            return True
    return False


def _model(runtime: str) -> str:
    """Return the model of a runtime such as torchtune-llama3.2-1b."""
    parts = runtime.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""
