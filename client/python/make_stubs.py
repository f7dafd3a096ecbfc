"""Makes src/chorale_client/_v1/chorale_pb2.py, .pyi and chorale_pb2_grpc.py from the proto.

Needs grpcio-tools 1.62: its code runs with every protobuf from 4.25 on, while that of newer ones
refuses protobuf two major versions later. The tools themselves want protobuf 4, so they live in an
environment of their own:

    python3 -m venv build/stubs_python
    build/stubs_python/bin/pip install grpcio-tools==1.62.3 'setuptools<81'
    build/stubs_python/bin/python client/python/make_stubs.py
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"


def main() -> None:
    """Writes the files; ends the program with a message if protoc refuses."""
    from grpc_tools import protoc

    own = pathlib.Path(protoc.__file__).with_name("_proto")
    with tempfile.TemporaryDirectory() as made:
        arguments = [
            "protoc",
            f"-I{PROTO}",
            f"-I{own}",
            f"--python_out={made}",
            f"--pyi_out={made}",
            f"--grpc_python_out={made}",
            "chorale/v1/chorale.proto",
        ]
        if protoc.main(arguments) != 0:
            sys.exit("protoc refused chorale.proto")
        # protoc names Python's modules after the folders of the proto, not after the package.
        for file in pathlib.Path(made, "chorale/v1").iterdir():
            code = file.read_text().replace(
                "from chorale.v1 import", "from chorale_client._v1 import"
            )
            (HERE / "src/chorale_client/_v1" / file.name).write_text(code)


if __name__ == "__main__":
    main()
