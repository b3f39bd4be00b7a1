"""Several processes: DistributedDataParallel averages gradients before level 1's step, and of fully_shard's DTensors each has a part."""
import socket

import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: the optimizers are not tested")
dist = pytest.importorskip("torch.distributed")
fsdp = pytest.importorskip("torch.distributed.fsdp")
if not dist.is_available() or not dist.is_gloo_available() or not hasattr(fsdp, "fully_shard"):
    pytest.skip("this torch has no gloo or no fully_shard", allow_module_level=True)


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 48))


def adamw(model, **arguments):
    return lpmm.AdamW(model.parameters(), **{"lr": 0.01, "preset": "lpmm", "clip_norm": 1.0, **arguments})


def whole(x):
    return (x.full_tensor() if hasattr(x, "to_local") else x).detach()


def content(model, optimizer):
    """Values, codes and steps, as bytes."""
    parameters = list(model.parameters())
    return [whole(x).reshape(-1).view(torch.uint8) for x in parameters + [x for p in parameters for x in optimizer.state[p].values()]]


def same(ours, others):
    """But for room at the end of DTensors."""
    return len(ours) == len(others) and all(torch.equal(x[:len(y)], y) for x, y in zip(ours, others))


def train(model, optimizer, rank=0, processes=1):
    torch.manual_seed(2)
    for _ in range(5):
        optimizer.zero_grad()
        x = torch.randn(32, 64).chunk(processes)[rank]
        torch.nn.functional.cross_entropy(model(x), x.argmax(1) % 48).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return content(model, optimizer)


def refusal(function):
    try:
        function()
    except (RuntimeError, ValueError) as e:
        return str(e)
    return ""


def check_training(place, sharded):
    alone = adamw(model := net())
    want = train(model, alone)
    early = adamw(old := net())  # accelerate makes it first
    early.param_groups[0]["params"] = list((late := sharded()).parameters())
    assert not early._slots, "whole parameters are kept"
    ddp = torch.nn.parallel.DistributedDataParallel(old)
    for of, optimizer, why in ((ddp, adamw(ddp), "processes train"), (late, early, "DTensor")):
        ours = train(of, optimizer, *place)
        assert all((x.view(torch.float32) - y.view(torch.float32)).abs().max() < 1e-3 for x, y in zip(ours[:4], want))
        assert abs(optimizer.last_gradient_norm / alone.last_gradient_norm - 1) < 1e-3
        for function in (optimizer.fold_gradients, lambda: optimizer.fold_gradients("none"), lambda: lpmm.pack(of, optimizer)):
            assert why in refusal(function)
    assert {k: v * place[1] for k, v in early.memory().items()} == alone.memory()
    if place[0] == 1:
        late[0].weight.grad.to_local().fill_(torch.nan)
    early.step()
    assert early.skipped_steps == 1 and same(content(late, early), ours)


def check_bytes(cut):
    def updated(place, dtype=torch.float32, kind="AdamW", **arguments):
        torch.manual_seed(3)
        ps = torch.nn.ParameterList(place(torch.randn(shape).to(dtype)) for shape in ((64, 128), (5, 256), (2, 512), (512,)))
        optimizer = getattr(lpmm, kind)([{"params": ps[:1], "min_elements": 8192}, {"params": ps[1:], "lr": 0.02}], **arguments)
        for _ in range(3):
            for p in ps:
                p.grad = place(torch.randn(p.shape).to(dtype))
            optimizer.step()
        return content(ps, optimizer)

    for arguments in ({"preset": "lpmm-nano"}, {"kind": "SGD", "momentum": 0.9, "preset": "lpmm"},
                      {"preset": "flash", "dtype": torch.bfloat16}, {"kind": "Lion", "dtype": torch.float16}):
        assert same(updated(cut, **arguments), updated(lambda x: x, **arguments)), arguments


def check_noise(cut, parts):
    pattern = torch.linspace(1, 0.1, 128).repeat(2)[:150]
    p = torch.nn.Parameter(cut(torch.zeros(parts, 150)))
    p.grad = cut(pattern.repeat(parts, 1))
    optimizer = lpmm.SGD([p], momentum=0.9, specs={"momentum": "int8:block128:sr"})
    optimizer.step()
    groups = [row[first:first + 22] for row in whole(optimizer.state[p]["momentum"]) for first in (0, 128)]
    assert not any(torch.equal(a, b) for i, a in enumerate(groups) for b in groups[:i])
    assert (whole(optimizer.dequantized(p, "momentum")) - pattern).abs().max() < 1 / 127


def check_saving(place, sharded, folder):
    import torch.distributed.checkpoint as dcp
    model, copy, alone = sharded(), sharded(), net()
    old, new = map(adamw, (model, copy))
    train(model, old, *place)
    copy.load_state_dict(model.state_dict())
    torch.save(old.state_dict(), file := f"{folder}/{place}")
    new.load_state_dict(torch.load(file))
    ours, own = train(model, old, *place), f"{folder}/{place[1]}"
    assert same(train(copy, new, *place), ours)
    dcp.save(old.state_dict(), checkpoint_id=own)
    train(copy, new, *place)
    dcp.load(state := new.state_dict(), checkpoint_id=own)
    new.load_state_dict(state)
    assert same(content(copy, new)[4:], ours[4:])
    if place[1] == 2:
        return dcp.save(old.torch_state_dict(), checkpoint_id=f"{folder}/torchs")
    with pytest.raises(dcp.api.CheckpointException, match="Size mismatch"):
        dcp.load(state, checkpoint_id=f"{folder}/2")
    dcp.load(state := adamw(model).torch_state_dict(), checkpoint_id=f"{folder}/torchs")
    in_full = {i: {k: whole(x) for k, x in s.items()} for i, s in state["state"].items()}
    assert in_full[0]["step"] == 10
    for of, states in ((model, state["state"]), (model, in_full), (alone, state["state"])):
        taken = adamw(of, preset="fp32")
        taken.load_state_dict({**state, "state": states})
        for i, p in enumerate(of.parameters()):
            assert torch.equal(whole(taken.dequantized(p, "variance")), in_full[i]["exp_avg_sq"])


def check_refusals(cut):
    p = torch.nn.Parameter(cut(torch.ones(8, 64)))
    for kind in "LAMB LARS LARSClip Muon Adafactor AdamMini AdamWFactored".split():
        assert f" {getattr(lpmm, kind).rule} needs whole tensors" in refusal(lambda: getattr(lpmm, kind)([p])), kind
    assert "adamw as it is set needs" in refusal(lambda: lpmm.AdamW([p], update_clip=1))
    assert "momentum as int4:row:sr needs" in refusal(lambda: lpmm.AdamW([p], specs={"momentum": "int4:row:sr"}))
    assert "one Shard(0)" in refusal(lambda: lpmm.AdamW([torch.nn.Parameter(cut(torch.ones(8, 64), dist.tensor.Shard(1)))]))
    p = torch.nn.Parameter(cut(torch.ones(8, 64), dist.tensor.Replicate()))
    p.grad = torch.ones_like(p)
    lpmm.LAMB([p]).step()
    assert whole(p).max() < 1


def work(rank, processes, port, folder):
    torch.set_num_threads(1)
    early = adamw(folded := net()).fold_gradients()  # before there is a group of processes
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=processes)
    assert f"{processes} processes" in refusal(lambda: train(folded, early))
    import torch.distributed.tensor as of
    mesh, pairs = dist.init_device_mesh("cpu", (processes,)), dist.init_device_mesh("cpu", (processes // 2, 2))

    def cut(x, placement=of.Shard(0)):
        return of.distribute_tensor(x, mesh, [placement])

    def sharded():
        return fsdp.fully_shard(net(), mesh=mesh)

    check_training((rank, processes), sharded)
    for place in (cut, lambda x: of.distribute_tensor(x, pairs, [of.Replicate(), of.Shard(0)])):
        check_bytes(place)
    check_noise(cut, processes)
    check_saving((rank, processes), sharded, folder)
    check_refusals(cut)
    for named in (False, True):
        flat = fsdp.FullyShardedDataParallel(net(), use_orig_params=named, device_id=torch.device("cpu"))
        assert "take fully_shard" in refusal(lambda: adamw(flat))
    dist.destroy_process_group()


@pytest.mark.parametrize("processes", [2, 4])  # the second loads what the first saved
def test_several_processes(processes, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.start_processes(work, (processes, port, str(tmp_path_factory.getbasetemp())), processes, start_method="spawn")
