"""A minimal training: the ranks compute the sum of their numbers, over sockets or with a real torch (gloo).

Runs in any Python. Prints one line of JSON: the rank's environment and the sum.
"""

import json
import os
import socket
import sys
import time


def by_socket(rank: int, size: int) -> int:
    """Let rank 0 listen on MASTER_ADDR and MASTER_PORT, as with env:// in torch, and send the sum to the other
    ranks."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        server = socket.create_server(place)
        peers = [server.accept()[0] for _ in range(size - 1)]
        total = sum(int(peer.recv(64)) for peer in peers)
        for peer in peers:
            peer.sendall(str(total).encode())
        return total
    deadline = time.monotonic() + 60
    while True:
        try:
            peer = socket.create_connection(place, timeout=60)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    peer.sendall(str(rank).encode())
    return int(peer.recv(64))


def by_torch() -> int:
    """Compute the sum with an all-reduce of a real torch."""
    import torch
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    number = torch.tensor([torch.distributed.get_rank()])
    torch.distributed.all_reduce(number)
    torch.distributed.destroy_process_group()
    return int(number.item())


total = by_torch() if "--torch" in sys.argv else by_socket(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURMD_NODENAME", "NCCL_NET")
sys.stdout.write(json.dumps({**{name: os.environ.get(name, "") for name in names}, "sum": str(total)}) + "\n")
