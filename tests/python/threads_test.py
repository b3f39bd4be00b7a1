"""Kernels run in torch's own threads; in others where somebody asked for them, and after a fork. Threads share a model."""
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="no torch here: its threads are not tested")
optimizer = pytest.importorskip("lpmm.optimizer")

PROGRAM = """
import os, torch, lpmm
torch.set_num_threads(3)
ps = [torch.nn.Parameter(torch.ones(300, 1000)) for _ in range(2)]
for p in ps:
    p.grad = p.detach() * 2
optimizer = lpmm.AdamW(ps[:1])
threads = [len(os.listdir("/proc/self/task"))]
def step(optimizer):
    optimizer.step()
    threads.append(len(os.listdir("/proc/self/task")))
{before}
step(optimizer)
{after}
print(*(n - threads[0] for n in threads[1:]), float(ps[0].detach().sum()))
"""
IN_A_CHILD = """
child = os.fork()
if child == 0:
    step(optimizer)
    step(lpmm.AdamW(ps[1:]))  # asks for torch's threads once more, which are not here
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def run(before="", after=""):
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(before=before, after=after)], stdout=subprocess.PIPE, check=True, timeout=100)
    *more, total = done.stdout.decode().split()
    return [int(n) for n in more], float(total)


@pytest.mark.skipif(not optimizer._team(), reason="this torch is built without OpenMP")
def test_no_thread_is_added_to_torchs():
    shared, total = run()
    own, same = run("lpmm.set_threads(3)")
    assert shared == [0] and own == [2] and total == same


@pytest.mark.skipif(not optimizer._team(), reason="this torch is built without OpenMP")
def test_another_number_of_threads_is_taken_at_the_next_step():
    assert run(after="torch.set_num_threads(4)\nstep(optimizer)")[0] == [0, 1]


def test_a_child_has_threads_of_its_own():
    assert run(after=IN_A_CHILD)[0] == [0]


@pytest.mark.parametrize("zero", ["optimizer", "model"])
def test_threads_in_backward_of_one_model_lose_no_gradient(zero):
    lpmm, interval = sys.modules["lpmm"], sys.getswitchinterval()
    model = torch.nn.Sequential(torch.nn.Linear(256, 256))
    optimizer = lpmm.AdamW(model.parameters(), preset="lpmm-min")
    lpmm.pack(model, optimizer)
    weight, x = model[0].weight, torch.ones(8, 256)

    def found(threads):
        (optimizer if zero == "optimizer" else model).zero_grad()
        in_threads(threads, lambda: [model(x).sum().backward() for _ in range(8 // threads)])
        return weight.grad.folds, float(weight.grad.norm()), float(weight.grad.dequantize().sum())

    try:
        sys.setswitchinterval(1e-5)
        assert {found(4) for _ in range(20)} == {found(1)}
    finally:
        sys.setswitchinterval(interval)


def test_threads_add_whole_gradients():
    """A weight of several panels takes a gradient in parts, between which another thread's came: the norm was too large."""
    lpmm = sys.modules["lpmm"]
    model, x = torch.nn.Linear(2048, 8192, bias=False), torch.ones(8, 2048)
    lpmm.pack(model, lpmm.AdamW(model.parameters()))
    assert len(list(model.weight.panels())) > 1

    def norm(threads):
        model.zero_grad()
        in_threads(threads, lambda: [model(x).sum().backward() for _ in range(8 // threads)])
        return float(model.weight.grad.norm())

    assert norm(4) == norm(1)


def test_threads_lose_no_gradient_of_a_weight_without_a_packed_sum():
    lpmm = sys.modules["lpmm"]
    model, x = torch.nn.Linear(512, 512, bias=False), torch.ones(1, 512)
    lpmm.pack(model, lpmm.AdamW(model.parameters()))
    model.weight.packed_sum = model.weight.grad = None  # as of a weight that was frozen when the optimizer was told to fold
    for _ in range(20):
        model.weight.grad = None
        in_threads(4, lambda: [model(x).sum().backward() for _ in range(8)])
        assert set(model.weight.grad.unique().tolist()) == {32.0}


def test_threads_fold_into_a_gradient_that_was_scaled_to_0():
    lpmm, interval = sys.modules["lpmm"], sys.getswitchinterval()
    p, ones = torch.nn.Parameter(torch.ones(64, 64)), torch.ones(64, 64)
    optimizer, folds = lpmm.AdamW([p]).fold_gradients(), set()
    try:
        sys.setswitchinterval(1e-6)
        for _ in range(300):
            optimizer.zero_grad()
            p.grad.fold(ones)
            p.grad.mul_(0)
            in_threads(4, lambda: p.grad.fold(ones))
            folds.add(p.grad.folds)
    finally:
        sys.setswitchinterval(interval)
    assert folds == {4}


def test_steps_of_several_threads_come_one_after_another(monkeypatch):
    adamw, meeting, met = sys.modules["lpmm"].AdamW([torch.nn.Parameter(torch.ones(8))]), threading.Barrier(2), []

    def apply(_):
        try:
            met.append(meeting.wait(timeout=0.2))
        except threading.BrokenBarrierError:
            met.append("alone")

    monkeypatch.setattr(adamw, "_apply", apply)
    in_threads(2, adamw.step)
    assert met == ["alone", "alone"]


def in_threads(count, work):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def test_threads_whose_gradients_are_applied_wait_for_each_other():
    """Each refuses its gradient, which empties those of all, while the other begins with its own."""
    lpmm, interval = sys.modules["lpmm"], sys.getswitchinterval()
    ps = [torch.nn.Parameter(torch.ones(64, 64)) for _ in range(2)]
    optimizer = lpmm.AdamW(ps).fold_gradients(accumulator="none")
    meeting = threading.Barrier(2)

    def refuse(p):
        meeting.wait(60)
        (p * float("nan")).sum().backward()

    try:
        sys.setswitchinterval(1e-6)
        for _ in range(300):
            for p in ps:
                p.grad = None  # as model.zero_grad() leaves it
            optimizer.step()
            both = [threading.Thread(target=refuse, args=(p,), daemon=True) for p in ps]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join(60)
                assert not thread.is_alive()
    finally:
        sys.setswitchinterval(interval)
    assert optimizer.skipped_steps == 600


def test_a_step_waits_for_a_gradient_that_comes_in_parts():
    lpmm, failed, ended = sys.modules["lpmm"], [], threading.Event()
    model, x = torch.nn.Linear(2048, 4096, bias=False), torch.ones(4, 2048)
    optimizer = lpmm.SGD(model.parameters(), lr=1e-5)
    lpmm.pack(model, optimizer)
    assert len(list(model.weight.panels())) > 1

    def backward():
        try:
            for _ in range(10):
                model(x).sum().backward()  # of a weight whose input needs no gradient
        except Exception as e:
            failed.append(e)
        ended.set()

    thread = threading.Thread(target=backward)
    thread.start()
    while not ended.is_set():
        optimizer.step()
    thread.join()
    assert not failed
