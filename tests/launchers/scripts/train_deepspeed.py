"""Train with DeepSpeed's engine on CPUs: ZeRO stage 1, with the optimizer of PyTorch."""

import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import samples
import torch
from torch import distributed, nn


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    deepspeed.init_distributed("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    points, classes = map(torch.from_numpy, samples.load())
    mine, own_classes = points[rank::size], classes[rank::size]
    model = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    config = {
        "train_micro_batch_size_per_gpu": 32,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for _ in range(50):
        drawn = torch.randint(len(mine), (32,))
        loss = nn.functional.cross_entropy(engine(mine[drawn]), own_classes[drawn])
        engine.backward(loss)
        engine.step()
    with torch.no_grad():
        accuracy = (engine.module(points).argmax(1) == classes).float().mean()
        weights = torch.cat([each.flatten() for each in engine.module.parameters()]).norm()
    # One write per line, because processes share the output of their task.
    print(f"ends rank={rank} size={size} accuracy={accuracy:.4f} weights={weights:.6f}\n", end="", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
