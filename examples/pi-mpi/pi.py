"""Compute pi as the area under 4 / (1 + x²) from 0 to 1, in strips shared by the ranks.

It calls the library of Open MPI directly and needs only Python and Open MPI. Larger programs use mpi4py.
"""

import ctypes
import socket

STRIPS = 2_000_000

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)


def handle(name: str) -> ctypes.c_void_p:
    """Return the address of an object of the library that the header calls MPI_COMM_WORLD, MPI_DOUBLE or MPI_SUM."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


world, double, plus = handle("ompi_mpi_comm_world"), handle("ompi_mpi_double"), handle("ompi_mpi_op_sum")


def main() -> None:
    mpi.MPI_Init(None, None)
    rank, size = ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(size))

    mine = range(rank.value, STRIPS, size.value)
    area = ctypes.c_double(sum(4 / (1 + ((strip + 0.5) / STRIPS) ** 2) for strip in mine) / STRIPS)
    print(f"rank {rank.value} of {size.value} on {socket.gethostname()}: {area.value:.12f}", flush=True)

    total = ctypes.c_double()
    mpi.MPI_Reduce(ctypes.byref(area), ctypes.byref(total), 1, double, plus, 0, world)
    if rank.value == 0:
        print(f"pi is {total.value:.10f}, by {size.value} ranks", flush=True)
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main()
