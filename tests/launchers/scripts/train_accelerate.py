"""Train with Hugging Face Accelerate, as in its documentation: the script knows nothing of ranks and addresses."""

import samples
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    points, classes = map(torch.from_numpy, samples.load())
    model = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    loader = DataLoader(TensorDataset(points, classes), batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(4):
        for batch, expected in loader:
            loss = nn.functional.cross_entropy(model(batch), expected)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
    with torch.no_grad():
        accuracy = (model(points).argmax(1) == classes).float().mean()
        weights = torch.cat([each.flatten() for each in model.parameters()]).norm()
    # One write per line, because processes share the output of their task.
    rank, size = accelerator.process_index, accelerator.num_processes
    print(f"ends rank={rank} size={size} accuracy={accuracy:.4f} weights={weights:.6f}\n", end="", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
