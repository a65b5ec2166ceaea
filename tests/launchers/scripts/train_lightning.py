"""Train with PyTorch Lightning, as in its documentation. The only option is the number of processes per node."""

import sys
from typing import Any

import lightning
import samples
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, points: Tensor) -> Tensor:
        scores: Tensor = self.layer(points)
        return scores

    def training_step(self, batch: Any, _index: int) -> Tensor:
        points, classes = batch
        return nn.functional.cross_entropy(self(points), classes)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


def main() -> None:
    # Lightning asks mpi4py, which the tests install without an MPI library, how many processes there are.
    sys.modules["mpi4py"] = None  # type: ignore[assignment]
    torch.set_num_threads(1)
    points, classes = map(torch.from_numpy, samples.load())
    model = Classifier()
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp",
        num_nodes=2,
        devices=int(sys.argv[1]),
        max_epochs=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, DataLoader(TensorDataset(points, classes), batch_size=32, shuffle=True))
    with torch.no_grad():
        accuracy = (model(points).argmax(1) == classes).float().mean()
        weights = torch.cat([each.flatten() for each in model.parameters()]).norm()
    # One write per line, because processes share the output of their task.
    rank, size = trainer.global_rank, trainer.world_size
    print(f"ends rank={rank} size={size} accuracy={accuracy:.4f} weights={weights:.6f}\n", end="", flush=True)


if __name__ == "__main__":
    main()
