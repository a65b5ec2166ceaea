"""Train with PyTorch Lightning, as in its documentation. The only option is the number of processes per node."""

import sys
from typing import Any

import lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.layers(images)
        return scores

    def training_step(self, batch: Any, _index: int) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.005)


def main() -> None:
    torch.set_num_threads(1)
    bunch = load_digits()
    images = torch.tensor(bunch.data, dtype=torch.float32) / 16
    labels = torch.tensor(bunch.target)
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
    trainer.fit(model, DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True))
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean()
        weights = torch.cat([each.flatten() for each in model.parameters()]).norm()
    # One write per line, because processes share the output of their task.
    rank, size = trainer.global_rank, trainer.world_size
    print(f"ends rank={rank} size={size} accuracy={accuracy:.4f} weights={weights:.6f}\n", end="", flush=True)


if __name__ == "__main__":
    main()
