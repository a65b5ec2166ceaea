"""Train on handwritten digits with PyTorch's DistributedDataParallel: each rank reads its share, and all step together.

The peers come from MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE.
"""

import argparse
import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

HELD_OUT = 360
BATCH = 32
CHECKPOINT_EVERY = 50

arguments = argparse.ArgumentParser()
arguments.add_argument("--steps", type=int, default=300)
arguments.add_argument("--output", type=Path, default=Path(os.environ.get("OUTPUT", "/output")))
options = arguments.parse_args()
checkpoint: Path = options.output / "checkpoint.pt"


def digits() -> tuple[Tensor, Tensor]:
    """Return all digits, in the same order on all ranks."""
    bunch = load_digits()
    order = torch.randperm(len(bunch.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(bunch.data, dtype=torch.float32) / 16
    return images[order], torch.tensor(bunch.target)[order]


def restored(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return the step to continue from. Rank 0 has the checkpoint and sends it to the others."""
    found = [torch.load(checkpoint) if distributed.get_rank() == 0 and checkpoint.exists() else None]
    distributed.broadcast_object_list(found)
    if found[0] is None:
        return 0
    model.load_state_dict(found[0]["model"])
    optimizer.load_state_dict(found[0]["optimizer"])
    return int(found[0]["step"])


def save(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write a temporary file and rename it, so that the checkpoint is always complete."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    beside = checkpoint.with_suffix(".new")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, beside)
    beside.rename(checkpoint)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()

    images, labels = digits()
    mine, my_labels = images[HELD_OUT:][rank::size], labels[HELD_OUT:][rank::size]
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    begin = restored(model, optimizer)
    print(f"begins rank={rank} size={size} step={begin} examples={len(mine)}", flush=True)

    together = DistributedDataParallel(model)
    mean = torch.zeros(())
    for step in range(begin + 1, options.steps + 1):
        # Random choices depend only on step and rank, so that an interrupted run continues identically.
        dice = torch.Generator().manual_seed(step * size + rank)
        drawn = torch.randint(len(mine), (BATCH,), generator=dice)
        loss = nn.functional.cross_entropy(together(mine[drawn]), my_labels[drawn])
        optimizer.zero_grad()
        loss.backward()  # averages the gradients of all ranks
        optimizer.step()
        if step % CHECKPOINT_EVERY == 0 or step == options.steps:
            mean = loss.detach()
            distributed.all_reduce(mean)
            mean /= size
            if rank == 0:
                save(step, model, optimizer)
                print(f"step={step} loss={mean:.4f}", flush=True)

    with torch.no_grad():
        accuracy = (model(images[:HELD_OUT]).argmax(1) == labels[:HELD_OUT]).float().mean()
        weights = torch.cat([each.flatten() for each in model.parameters()]).norm()
    print(f"ends rank={rank} loss={mean:.4f} accuracy={accuracy:.4f} weights={weights:.6f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
