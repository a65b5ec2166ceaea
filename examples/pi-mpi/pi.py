"""Pi, as the area under 4 / (1 + x²) from 0 to 1, cut into strips that the ranks share.

Speaks to Open MPI's library itself, so that Python and Open MPI are all that it needs. A program with more to say takes
mpi4py.
"""

import ctypes
import socket

STRIPS = 2_000_000

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)


def handle(name: str) -> ctypes.c_void_p:
    """What Open MPI's header calls MPI_COMM_WORLD, MPI_DOUBLE and MPI_SUM: addresses of objects in the library."""
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
