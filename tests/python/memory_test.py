"""What reads the memory of a packed tensor past the package gets a sentence, where address 0 would end the process."""
import pytest

torch = pytest.importorskip("torch", reason="no torch here: its tensors are not tested")
lpmm = pytest.importorskip("lpmm.optimizer").lpmm
if not hasattr(torch._C, "_set_storage_data_ptr_access_error_msg"):
    pytest.skip("this torch has no way to refuse it", allow_module_level=True)


def as_data(packed):
    x = torch.zeros(2)
    x.data = packed
    return x.sum()


@pytest.mark.parametrize("of", ["weight", "gradient"])
@pytest.mark.parametrize("read", [
    torch.utils.dlpack.to_dlpack, as_data, torch._C.TensorBase.data_ptr,
    lambda x: torch.zeros(2).set_(torch._C.TensorBase.untyped_storage(x)).sum()])
def test_memory_that_there_is_not_is_refused(of, read):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64))
    optimizer = lpmm.AdamW(model.parameters())
    lpmm.pack(model, optimizer)
    model(torch.ones(2, 64)).sum().backward()
    weight = model[0].weight
    packed = weight.detach() if of == "weight" else weight.grad
    with pytest.raises(RuntimeError, match=f"packed {of} is refused"), torch._C.DisableTorchFunctionSubclass():
        read(packed)
    optimizer.step()


@pytest.mark.parametrize("of", ["weight", "gradient"])
def test_a_packed_tensor_is_not_shared_and_has_no_storage(of):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64))
    lpmm.pack(model, lpmm.AdamW(model.parameters()))
    packed = model[0].weight if of == "weight" else model[0].weight.grad
    assert not packed.is_shared() and not packed.data.is_shared() and not torch.Tensor.is_shared(packed)
    for storage in (packed.untyped_storage, packed.storage, packed._typed_storage):
        with pytest.raises(RuntimeError, match="is refused"):
            storage()
