"""Several processes: DistributedDataParallel averages gradients before level 1's step; what cannot be averaged is refused."""
import pickle
import socket

import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: the optimizers are not tested")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no gloo: several processes are not tested", allow_module_level=True)
STEPS, PROCESSES = 5, 2


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 40))


def data():
    torch.manual_seed(2)
    return torch.randn(STEPS, 32, 64), torch.randint(40, (STEPS, 32))


def train(model, optimizer, part):
    for x, labels in zip(*data()):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[part]), labels[part]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def refusal(function):
    try:
        function()
    except (RuntimeError, ValueError) as e:
        return str(e)
    return ""


def work(rank, port, folder):
    torch.set_num_threads(1)
    early = lpmm.AdamW((folded := net()).parameters()).fold_gradients()  # before there is a group of processes
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES)
    model = torch.nn.parallel.DistributedDataParallel(net())
    optimizer = lpmm.AdamW(model.parameters(), lr=0.01, preset="lpmm")
    weights = train(model, optimizer, slice(16 * rank, 16 * rank + 16))
    sharded = net()
    torch.distributed.fsdp.fully_shard(sharded, mesh=torch.distributed.init_device_mesh("cpu", (PROCESSES,)))
    texts = [refusal(optimizer.fold_gradients), refusal(lambda: lpmm.pack(model, optimizer)),
             refusal(lambda: optimizer.fold_gradients(accumulator="none")),
             refusal(lambda: train(folded, early, slice(0, 16))), refusal(lambda: lpmm.AdamW(sharded.parameters()))]
    with open(f"{folder}/{rank}", "wb") as file:
        pickle.dump((weights, texts), file)
    dist.destroy_process_group()


def test_two_processes_train_as_one_at_level_1_and_others_are_refused(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.start_processes(work, (port, str(tmp_path)), PROCESSES, start_method="spawn")
    (first, texts), (second, others) = (pickle.loads((tmp_path / str(rank)).read_bytes()) for rank in range(PROCESSES))
    assert torch.equal(first, second)
    alone = (model := net(), lpmm.AdamW(model.parameters(), lr=0.01, preset="lpmm"))
    assert (first - train(*alone, slice(0, 32))).abs().max() < 1e-3
    for text in texts[:4] + others[:4]:
        assert "2 processes" in text
    assert "DTensor" in texts[4] and "DTensor" in others[4]
