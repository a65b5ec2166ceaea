"""Train with PyTorch and torch.distributed. Like DeepSpeed, it requires RANK, LOCAL_RANK and LOCAL_WORLD_SIZE.

PyTorch's optimizers and DistributedDataParallel import the compiler of PyTorch, which takes seconds in each process.
`examples/digits-ddp` uses them.
"""

import os

import samples
import torch
from torch import distributed


def main() -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method="env://")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    points, classes = map(torch.from_numpy, samples.load())
    # Each process has a share of the samples, and all average their gradients.
    mine, own_classes = points[rank::size], classes[rank::size]
    weights = torch.zeros(points.shape[1])
    for _ in range(50):
        gradient = mine.T @ (torch.sigmoid(mine @ weights) - own_classes) / len(mine)
        distributed.all_reduce(gradient)
        weights -= gradient / size
    accuracy = ((points @ weights > 0) == classes).float().mean()
    # One write per line, because processes share the output of their task.
    local = f"local={os.environ['LOCAL_RANK']}/{os.environ['LOCAL_WORLD_SIZE']}"
    print(
        f"ends rank={rank} size={size} accuracy={accuracy:.4f} weights={weights.norm():.6f} {local}\n",
        end="",
        flush=True,
    )
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
