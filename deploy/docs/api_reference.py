"""The API's reference in Markdown, from the comments of its proto."""

import itertools
import pathlib
import subprocess
import tempfile
from collections.abc import Iterable, Mapping

from google.protobuf import descriptor_pb2 as pb

FIELD = pb.FieldDescriptorProto
SCALARS = {value: name.removeprefix('TYPE_').lower() for name, value in FIELD.Type.items()}
# Numbers of the fields that lead to a declaration, of which source information makes its paths.
SYNTAX, SERVICE, MESSAGE, ENUM = 12, 6, 4, 5
METHOD, MESSAGE_FIELD, NESTED_MESSAGE, NESTED_ENUM, ENUM_VALUE = 2, 2, 3, 4, 2

Path = tuple[int, ...]


def compile_proto(folder: pathlib.Path, name: str) -> pb.FileDescriptorProto:
    with tempfile.NamedTemporaryFile(suffix='.pb') as out:
        subprocess.run(['protoc', '-I', folder, '--include_source_info',
                        f'--descriptor_set_out={out.name}', name], check=True)
        files = pb.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes()).file
    return files[0]


def block(lines: list[str]) -> list[str]:
    """Lines between two empty ones: text first, then a list or something that is indented."""
    first = next((at for at, line in enumerate(lines) if line.startswith('  ')), len(lines))
    text = [line.replace('][', ']\\[') for line in lines[:first]]  # ranges of letters, no links
    inset = [line.removeprefix('  ') for line in lines[first:]]
    if inset and not inset[0].startswith('- '):
        inset = ['```text', *inset, '```']
    return [*text, ''] * bool(text) + [*inset, ''] * bool(inset)


def paragraphs(comment: str) -> str:
    """A comment as Markdown: its lists stay lists, its other indented lines are as they are."""
    lines = [line.removeprefix(' ') for line in comment.strip('\n').split('\n')]
    out: list[str] = []
    for empty, group in itertools.groupby(lines, lambda line: not line.strip()):
        out += [] if empty else block(list(group))
    return '\n'.join(out)


class Reference:
    """Writes the reference of one file."""

    def __init__(self, file: pb.FileDescriptorProto):
        self.file = file
        self.comments: dict[Path, str] = {
            tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        self.out: list[str] = []

    def comment(self, path: Path) -> str:
        return paragraphs(self.comments.get(path, ''))

    def own_name(self, type_name: str) -> str:
        """A type's name without the package, or its full name if it is from elsewhere."""
        return type_name.removeprefix('.').removeprefix(self.file.package + '.')

    def link(self, type_name: str) -> str:
        name = self.own_name(type_name)
        return f'`{name}`' if name.startswith('google.') else f'[`{name}`](#{name.lower()})'

    def type_of(self, field: FIELD, maps: Mapping[str, pb.DescriptorProto]) -> str:
        """`maps`: the entries of maps, by the name of their type."""
        entry = maps.get(field.type_name.rpartition('.')[2])
        if entry is not None:
            key, value = (self.type_of(part, {}) for part in entry.field)
            return f'map from {key} to {value}'
        kind = self.link(field.type_name) if field.type_name else f'`{SCALARS[field.type]}`'
        return f'repeated {kind}' if field.label == FIELD.LABEL_REPEATED else kind

    def item(self, head: str, path: Path) -> None:
        text = self.comment(path).strip().replace('\n', '\n    ')
        self.out += [f'- {head}' + (f': {text}' if text else '')]

    def heading(self, level: int, name: str) -> None:
        self.out += ['', f'{"#" * level} {name} {{#{name.lower()}}}', '']

    def service(self, service: pb.ServiceDescriptorProto, path: Path) -> None:
        self.heading(2, f'{service.name}')
        for index, method in enumerate(service.method):
            self.heading(3, method.name)
            request = ('a stream of ' if method.client_streaming else '') + self.link(
                method.input_type)
            answer = ('a stream of ' if method.server_streaming else '') + self.link(
                method.output_type)
            self.out += [f'{request} → {answer}', '', self.comment((*path, METHOD, index))]

    def enum(self, enum: pb.EnumDescriptorProto, path: Path, prefix: str) -> None:
        self.heading(3, prefix + enum.name)
        self.out += [self.comment(path), '']
        for index, value in enumerate(enum.value):
            self.item(f'**`{value.name}`** = {value.number}', (*path, ENUM_VALUE, index))

    def message(self, message: pb.DescriptorProto, path: Path, prefix: str) -> None:
        self.heading(3, prefix + message.name)
        self.out += [self.comment(path), '']
        maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        for index, field in enumerate(message.field):
            one_of = ''
            if field.HasField('oneof_index') and not field.proto3_optional:
                one_of = f', one of `{message.oneof_decl[field.oneof_index].name}`'
            self.item(f'**`{field.name}`** {self.type_of(field, maps)}{one_of}',
                      (*path, MESSAGE_FIELD, index))
        inner = f'{prefix}{message.name}.'
        for index, enum in enumerate(message.enum_type):
            self.enum(enum, (*path, NESTED_ENUM, index), inner)
        for index, nested in enumerate(message.nested_type):
            if nested.name not in maps:
                self.message(nested, (*path, NESTED_MESSAGE, index), inner)

    def write(self) -> str:
        self.out = ['# API', '', f'Package `{self.file.package}`, from the comments of '
                    f'`proto/{self.file.name}`.', '', self.comment((SYNTAX,))]
        for index, service in enumerate(self.file.service):
            self.service(service, (SERVICE, index))
        self.out += ['', '## Messages']
        for index, message in enumerate(self.file.message_type):
            self.message(message, (MESSAGE, index), '')
        for index, enum in enumerate(self.file.enum_type):
            self.enum(enum, (ENUM, index), '')
        return '\n'.join(self.out) + '\n'


def undocumented(file: pb.FileDescriptorProto) -> Iterable[str]:
    """The methods that have no comment."""
    comments = {tuple(place.path) for place in file.source_code_info.location
                if place.leading_comments}
    for s, service in enumerate(file.service):
        for m, method in enumerate(service.method):
            if (SERVICE, s, METHOD, m) not in comments:
                yield f'{service.name}.{method.name}'


def api_reference(folder: pathlib.Path, name: str) -> str:
    file = compile_proto(folder, name)
    missing = list(undocumented(file))
    if missing:
        raise ValueError(f'no comment in {name}: {", ".join(missing)}')
    return Reference(file).write()
