"""`shipper.toml`: what is accepted, and the line and key of every mistake; several inputs in one agent."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from jetspark import JetStream, Stream
from jetspark.errors import UsageError
from jetspark.logs.agent.config_file import read_ship_file
from jetspark.logs.agent.containers import CONTAINERS
from jetspark.logs.agent.input import COMPRESSED
from jetspark.logs.agent.options import ShipOptions
from tests.cli.support import Cli
from tests.logs.support import Running, lines_of, read_all
from tests.support.golden import Golden, Refusals

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipeline" / "shipper.toml"
PAGE = Path(__file__).parents[3] / "docs" / "ship.md"

WHOLE = """\
host = "web1"
partitions = 8
positions = "state/ship.json"

[input.nginx]
files = ["nginx/*.log", "/var/log/more.log"]
exclude = ["*.old"]
prefix = "logs.nginx"
container = "cri"

[input.app]
files = ["app.log"]

[input.app.multiline]
start = "[0-9]"
timeout = 1
max_lines = 9
"""


def written(place: Path, text: str) -> Path:
    file = place / "shipper.toml"
    file.write_text(text)
    return file


def test_a_file_is_read_with_defaults_and_paths_of_its_directory(tmp_path: Path) -> None:
    found = read_ship_file(written(tmp_path, WHOLE))
    assert found.create is None
    nginx, app = found.options.pop("inputs")
    assert found.options == {"host": "web1", "partitions": 8, "positions": tmp_path / "state/ship.json"}
    assert (nginx.name, nginx.prefix) == ("nginx", "logs.nginx")
    assert nginx.patterns == [str(tmp_path / "nginx/*.log"), "/var/log/more.log"]
    assert (tuple(nginx.exclude), app.exclude) == (("*.old",), COMPRESSED)
    assert (nginx.multiline.unwrap, app.multiline.unwrap) == (CONTAINERS["cri"], None)
    assert (app.multiline.timeout, app.multiline.max_lines) == (1.0, 9)
    (app,) = read_ship_file(written(tmp_path, 'prefix = "x.y"\n[input.a]\nfiles = ["a"]\n')).options["inputs"]
    assert (app.prefix, app.multiline) == ("x.y", None)


def test_a_container_may_have_a_rule_and_bounds(tmp_path: Path) -> None:
    text = '[input.a]\nfiles = ["a"]\ncontainer = "docker"\nmultiline = { timeout = 5 }\n'
    (app,) = read_ship_file(written(tmp_path, text)).options["inputs"]
    assert (app.multiline.unwrap, app.multiline.timeout) == (CONTAINERS["docker"], 5.0)
    assert app.multiline.is_complete(app.multiline.begin(b"x"))
    text = text.replace("timeout = 5", 'preset = "java"')
    (app,) = read_ship_file(written(tmp_path, text)).options["inputs"]
    assert not app.multiline.is_complete(app.multiline.begin(b"x"))


MISTAKES = {
    "unknown": ("partitions = 8", "partition = 8"),
    "range": ("partitions = 8", "partitions = 0"),
    "type": ("partitions = 8", 'partitions = "8"'),
    "subject": ('"logs.nginx"', '"logs. nginx"'),
    "no-files": ('files = ["app.log"]', ""),
    "two-kinds": ("exclude =", "journal = {}\nexclude ="),
    "joined-journal": ('files = ["app.log"]', "journal = {}"),
    "match": (
        'files = ["app.log"]\n\n[input.app.multiline]',
        'journal = { matches = ["--x"] }\n[input.b]\nfiles = ["b"]\n[input.b.multiline]',
    ),
    "empty-files": ('["app.log"]', "[]"),
    "unknown-in-input": ("exclude =", "excluded ="),
    "container": ('"cri"', '"lxc"'),
    "name": ("[input.nginx]", '[input."a b"]'),
    "not-a-table": ("[input.app.multiline]", "[input.app.multilines]"),
    "pattern": ('"[0-9]"', '"[0-9"'),
    "two-rules": ("max_lines = 9", 'preset = "go"'),
    "preset": ('start = "[0-9]"', 'preset = "c"'),
    "timeout": ("timeout = 1", "timeout = 0"),
    "lines": ("max_lines = 9", "max_lines = 0"),
    "unknown-in-rule": ("max_lines =", "lines ="),
}


def test_a_mistake_is_named_with_its_line_and_key(tmp_path: Path, golden: Golden) -> None:
    told = Refusals({r"(?<=nginx\.8\.)[^']+": "HOST"})
    for name, (right, wrong) in MISTAKES.items():
        assert right in WHOLE
        with told.refusal(name, names="shipper.toml, line"):
            read_ship_file(written(tmp_path, WHOLE.replace(right, wrong)))
    golden("errors-shipper", told.text())


@pytest.mark.parametrize("text", ["host = ", 'host = "a"\n', "[input]\n"])
def test_a_file_without_inputs_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"shipper\.toml"):
        read_ship_file(written(tmp_path, text))


async def test_inputs_have_their_own_subjects_and_rules(js: JetStream, stream: Stream, logs: Path) -> None:
    prefix = stream.name.lower()
    text = WHOLE.replace("logs.nginx", f"{prefix}.nginx").replace(
        'host = "web1"', f'prefix = "{prefix}.other"'
    )
    file = written(logs, text)
    (logs / "nginx").mkdir()
    (logs / "nginx" / "a.log").write_text("T stdout P a\nT stdout F b\n b\n")
    (logs / "app.log").write_text("1 a\n b\n2 c\n")
    options = read_ship_file(file).options
    for again in range(2):  # The second time, there is nothing left.
        running = Running(js, ShipOptions(**options, host="h", once=True, control=False))
        await running.end()
        assert running.agent.status().lines == (0 if again else 4)
    messages = await read_all(stream)
    assert {each.subject.rsplit(".", 2)[0] for each in messages} == {f"{prefix}.nginx", f"{prefix}.other"}
    data = {"nginx": [b"T stdout P a\nT stdout F b", b" b"], "other": [b"1 a\n b", b"2 c"]}
    for name, lines in data.items():
        assert [each.data for each in messages if each.subject.startswith(f"{prefix}.{name}")] == lines


async def test_lines_of_several_subjects_are_read_back_after_a_crash(
    js: JetStream, stream: Stream, logs: Path
) -> None:
    prefix = stream.name.lower()
    text = "".join(f'[input.{name}]\nfiles = ["{name}"]\nprefix = "{prefix}.{name}"\n' for name in "abc")
    options = read_ship_file(written(logs, f'positions = "p"\n{text}')).options
    await stream.update(stream.config.replace(duplicate_window=0.1))
    for name in "abc":
        (logs / name).write_text("one\ntwo\n")
    await Running(js, ShipOptions(**options, host="h", once=True, control=False)).end()
    # As if it had died before it could save that the lines are stored, and the window of the stream is over.
    document = json.loads((logs / "p").read_text())
    document["since"] = time.time() - 1
    for entry in document["files"]:
        entry["offset"], entry["tail"] = 0, ""
    (logs / "p").write_text(json.dumps(document))
    running = Running(js, ShipOptions(**options, host="h", once=True, control=False))
    await running.end()
    assert running.agent.status().duplicates == 6
    assert sorted(await lines_of(stream)) == [b"one"] * 3 + [b"two"] * 3


def test_the_inputs_of_the_page_are_read(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    inputs = [each for each in blocks if "[input." in each]
    assert len(inputs) == 2
    for block in inputs:
        assert read_ship_file(written(tmp_path, block)).options["inputs"]
    with pytest.raises(UsageError) as caught:
        read_ship_file(written(tmp_path, inputs[0].replace('"java"', '"jav"')))
    assert f"\njetspark: {caught.value}\n" in PAGE.read_text()


def test_the_example_is_run(cli: Cli, tmp_path: Path) -> None:
    file = Path(shutil.copy(EXAMPLE, tmp_path))
    for name, text in (
        ("nginx/a.log", "GET /\n"),
        ("service/b.log", "x\n\tat y\n"),
        ("worker.log", "1\n2\n"),
        ("pods/web_1/0.log", "T stdout P a\nT stderr F b\nT stdout F c\n"),
    ):
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    result = cli.json("ship", "--config", file, "--once", "--host", "h", "--no-control")
    assert (result["lines"], result["files"]) == (5, 4)
    assert len(result["subject"].split(",")) == 4


@pytest.mark.parametrize(
    "arguments",
    [("a.log",), ("--prefix", "x"), ("--exclude", "x"), ("--multiline", "go"), ("--container", "cri")],
)
def test_options_of_an_input_are_not_beside_a_file(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    file = written(tmp_path, WHOLE)
    assert "exclude each other" in cli.fails("ship", "--config", file, *arguments, code=2)
