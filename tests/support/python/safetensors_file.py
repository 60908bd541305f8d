"""The safetensors format, plainly: what the proxy's tests write and read without the program.

    tensors = {"w": Tensor("BF16", (2, 3), data)}
    write(path, tensors)
    tensors = read_checkpoint(directory)      # one file, or all files that the index names
    values = tensors["w"].decode()            # torch, float64
"""

import dataclasses
import json
import pathlib
import struct

import numpy
import torch


@dataclasses.dataclass
class Tensor:
    dtype: str
    shape: tuple
    data: bytes

    def decode(self):
        """float64 values; U8 gives the bytes."""
        if self.dtype == "BF16":
            wide = numpy.frombuffer(self.data, numpy.uint16).astype(numpy.uint32) << 16
            values = wide.view(numpy.float32)
        elif self.dtype == "F8_E4M3":
            values = F8_E4M3[numpy.frombuffer(self.data, numpy.uint8)]
        else:
            values = numpy.frombuffer(self.data, NUMPY[self.dtype])
        return torch.from_numpy(values.astype(numpy.float64)).reshape(self.shape)


NUMPY = {"F64": numpy.float64, "F32": numpy.float32, "F16": numpy.float16, "I64": numpy.int64,
         "U8": numpy.uint8}


def _f8_e4m3(byte):
    sign, exponent, fraction = -1.0 if byte & 0x80 else 1.0, byte >> 3 & 15, byte & 7
    if exponent == 15 and fraction == 7:
        return float("nan")
    if exponent == 0:
        return sign * fraction * 2.0**-9
    return sign * (1 + fraction / 8) * 2.0 ** (exponent - 7)


F8_E4M3 = numpy.array([_f8_e4m3(byte) for byte in range(256)])


def encode(dtype, values):
    """A Tensor of an array's values; BF16 cuts the float32 short."""
    values = numpy.ascontiguousarray(values)
    if dtype == "BF16":
        data = (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
    elif dtype == "F8_E4M3":
        data = values.astype(numpy.uint8)  # bytes, not values
    else:
        data = values.astype(NUMPY[dtype])
    return Tensor(dtype, values.shape, data.tobytes())


def write(path, tensors, metadata=None):
    header, at = {"__metadata__": metadata or {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = at + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape),
                        "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.data)


def read(path):
    content = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    header.pop("__metadata__", None)
    return {name: Tensor(entry["dtype"], tuple(entry["shape"]), data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


INDEX = "model.safetensors.index.json"


def write_checkpoint(directory, config, tensors, shards):
    """config.json, a tokenizer, and the tensors dealt out in turn; one shard needs no index."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    (directory / "tokenizer.json").write_text("{}")
    if shards == 1:
        write(directory / "model.safetensors", tensors)
        return
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {key: tensors[key] for key in list(tensors)[shard::shards]}
        write(directory / name, part)
        weight_map.update(dict.fromkeys(part, name))
    total = sum(len(tensor.data) for tensor in tensors.values())
    (directory / INDEX).write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))


def read_checkpoint(directory):
    directory = pathlib.Path(directory)
    if not (directory / INDEX).exists():
        return read(directory / "model.safetensors")
    weight_map = json.loads((directory / INDEX).read_text())["weight_map"]
    tensors = {}
    for name in sorted(set(weight_map.values())):
        for key, tensor in read(directory / name).items():
            assert weight_map[key] == name, f"{key} is in {name}, the index says {weight_map[key]}"
            tensors[key] = tensor
    assert set(tensors) == set(weight_map)
    return tensors
