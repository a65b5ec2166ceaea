"""Train with PyTorch's DistributedDataParallel. Like DeepSpeed, it requires RANK, LOCAL_RANK and LOCAL_WORLD_SIZE."""

import os

import torch
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", init_method="env://")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    bunch = load_digits()
    images = torch.tensor(bunch.data, dtype=torch.float32) / 16
    labels = torch.tensor(bunch.target)
    mine, own_labels = images[rank::size], labels[rank::size]
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(150):
        drawn = torch.randint(len(mine), (32,))
        loss = nn.functional.cross_entropy(model(mine[drawn]), own_labels[drawn])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean()
        weights = torch.cat([each.flatten() for each in model.parameters()]).norm()
    # One write per line, because processes share the output of their task.
    local = f"local={os.environ['LOCAL_RANK']}/{os.environ['LOCAL_WORLD_SIZE']}"
    print(
        f"ends rank={rank} size={size} accuracy={accuracy:.4f} weights={weights:.6f} {local}\n",
        end="",
        flush=True,
    )
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
