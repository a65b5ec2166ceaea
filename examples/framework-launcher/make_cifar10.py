"""Write a small data set in the format of CIFAR-10's "python version", without a download.

    python make_cifar10.py DIR          # DIR/cifar-10-batches-py/data_batch_1 … data_batch_5, test_batch, batches.meta

The images are scikit-learn's handwritten digits, scaled from 8x8 to 32x32 pixels with three equal colours.
"""

import pickle
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

BATCHES = 5


def write(path: Path, content: dict[bytes, object]) -> None:
    path.write_bytes(pickle.dumps(content, protocol=4))


def main() -> None:
    folder = Path(sys.argv[1]) / "cifar-10-batches-py"
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    grey = np.kron(digits.images / 16 * 255, np.ones((4, 4))).astype(np.uint8).reshape(-1, 1024)
    pixels = np.tile(grey, 3)  # a row is one image: all red, then all green, then all blue values
    order = np.random.default_rng(0).permutation(len(pixels))
    for number, rows in enumerate(np.array_split(order, BATCHES + 1), 1):
        is_test = number > BATCHES
        label = "testing batch 1 of 1" if is_test else f"training batch {number} of {BATCHES}"
        content = {
            b"batch_label": label.encode(),
            b"data": pixels[rows],
            b"labels": digits.target[rows].tolist(),
            b"filenames": [b"digit_%04d.png" % row for row in rows],
        }
        write(folder / ("test_batch" if is_test else f"data_batch_{number}"), content)
    names = [str(name).encode() for name in digits.target_names]
    write(folder / "batches.meta", {b"label_names": names, b"num_cases_per_batch": len(order) // BATCHES})
    print(f"{len(order)} pictures in {folder}")


if __name__ == "__main__":
    main()
