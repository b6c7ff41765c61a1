"""Writes a Chakra trace of four ranks with Google's protobuf library: chakra_writer.py DIRECTORY.

Prints in JSON the messages and bytes of its sends, and the nodes. Debian's Python has the library; the harness' own has
not. The messages are those of mlcommons/chakra, schema/protobuf/et_def.proto, as far as they are used.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RANKS = 4
STEPS = 50
COMP, SEND, RECV, COLL, METADATA = 4, 5, 6, 7, 1
FIELD = descriptor_pb2.FieldDescriptorProto
TEXT, UINT64, INT64, INT32, BOOL, MESSAGE = (FIELD.TYPE_STRING, FIELD.TYPE_UINT64, FIELD.TYPE_INT64, FIELD.TYPE_INT32,
                                             FIELD.TYPE_BOOL, FIELD.TYPE_MESSAGE)
MESSAGES = {
    "AttributeProto": [("name", 1, TEXT, False), ("int32_val", 7, INT32, False), ("int64_val", 9, INT64, False),
                       ("uint64_val", 13, UINT64, False), ("bool_val", 27, BOOL, False),
                       ("string_val", 29, TEXT, False)],
    "IOInfo": [("values", 1, TEXT, False), ("shapes", 2, TEXT, False), ("types", 3, TEXT, False)],
    "GlobalMetadata": [("version", 1, TEXT, False), ("attr", 2, "AttributeProto", True)],
    "Node": [("id", 1, UINT64, False), ("name", 2, TEXT, False), ("type", 3, INT32, False),
             ("ctrl_deps", 4, UINT64, True), ("data_deps", 5, UINT64, True), ("duration_micros", 7, UINT64, False),
             ("inputs", 8, "IOInfo", False), ("outputs", 9, "IOInfo", False), ("attr", 10, "AttributeProto", True)],
}


def classes() -> dict[str, Any]:
    """The classes of the messages."""
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, is_repeated in fields:
            label = FIELD.LABEL_REPEATED if is_repeated else FIELD.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, label=label)
            made.type = MESSAGE if isinstance(kind, str) else kind
            if isinstance(kind, str):
                made.type_name = f".ChakraProtoMsg.{kind}"
        if name == "AttributeProto":
            # A value of 0 is written, too, as only one of these fields is set.
            message.oneof_decl.add(name="value")
            for made in message.field[1:]:
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = {name: pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}") for name in MESSAGES}
    if hasattr(message_factory, "GetMessageClass"):
        return {name: message_factory.GetMessageClass(known) for name, known in found.items()}
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(known) for name, known in found.items()}


CLASSES = classes()


def node(number: int, kind: int, after: list[int], micros: int = 0, **values: object) -> Any:
    """A node; the values are its attributes, each with the type that Chakra's tools use."""
    made = CLASSES["Node"](id=number, name=f"node {number}", type=kind, data_deps=after, duration_micros=micros)
    for name, value in values.items():
        attribute = made.attr.add(name=name)
        if isinstance(value, bool):
            attribute.bool_val = value
        elif isinstance(value, str):
            attribute.string_val = value
        elif name in ("comm_src", "comm_dst", "comm_tag"):
            attribute.int32_val = value
        elif name == "comm_type":
            attribute.int64_val = value
        else:
            attribute.uint64_val = value
    return made


def varint(number: int) -> bytes:
    """The length of a message."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def main(directory: Path) -> None:
    """A ring of messages and an all-reduce of pairs in each step, and computing before it."""
    choice = random.Random(7)
    lengths = [choice.randrange(1 << 20) for _ in range(STEPS)]
    groups = json.dumps([{"pg_name": str(pair + 1), "ranks": [2 * pair, 2 * pair + 1]} for pair in range(2)])
    nodes = 0
    for rank in range(RANKS):
        metadata = node(1, METADATA, [])
        metadata.inputs.values = str([groups])
        made = [CLASSES["GlobalMetadata"](version="0.0.4"), metadata]
        before = [1]
        for step, length in enumerate(lengths):
            number = 10 * (step + 1)
            made.append(node(number, COMP, before, choice.randrange(50), is_cpu_op=False))
            made.append(node(number + 1, SEND, [number], comm_dst=(rank + 1) % RANKS, comm_size=length, comm_tag=step))
            made.append(node(number + 2, RECV, [number], comm_src=(rank - 1) % RANKS, comm_size=length, comm_tag=step))
            made.append(node(number + 3, COLL, [number + 1, number + 2], comm_type=0, comm_size=length,
                             pg_name=str(rank // 2 + 1)))
            before = [number + 3]
        nodes += len(made) - 1
        with (directory / f"ring.{rank}.et").open("wb") as file:
            for message in made:
                bare = message.SerializeToString()
                file.write(varint(len(bare)) + bare)
    # Around a ring, each rank of a pair sends a half twice: together all bytes of their all-reduce twice.
    messages = STEPS * RANKS * 3
    print(json.dumps({"nodes": nodes, "messages": messages, "bytes": sum(lengths) * (RANKS + 2 * 2)}))


main(Path(sys.argv[1]))
