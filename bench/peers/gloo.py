# SPDX-License-Identifier: Apache-2.0
"""All-reduce of PyTorch's Gloo over two processes."""
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PROCESSES = 2


def member(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=PROCESSES)
    for size in (1, 256, 16384, 262144, 1 << 20, 1 << 24):
        x = torch.ones(size)
        dist.all_reduce(x)
        assert torch.all(x == PROCESSES)
        x.fill_(0)
        rounds = 10 if size >= 1 << 22 else 50 if size >= 1 << 18 else 300
        for _ in range(3):
            dist.all_reduce(x)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(rounds):
            dist.all_reduce(x)
        seconds = (time.perf_counter() - begin) / rounds
        if rank == 0:
            print(f"gloo\tall-reduce n={PROCESSES} {size * 4}B\t{seconds * 1e6:.1f}\tus", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    mp.spawn(member, (free,), nprocs=PROCESSES)
