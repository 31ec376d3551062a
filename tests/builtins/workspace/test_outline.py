"""project_outline: what files define, in each language."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from inline_snapshot import snapshot

import ahvn_tools
from ahvn_tools import Toolkit
from ahvn_tools.builtins.workspace.outline import MAX_FILES, OutlineTools
from ahvn_tools.errors import ToolError


class Outline(OutlineTools):
    pass


def outline(*roots: Path, **arguments: object) -> str:
    return str(Toolkit("outline").add(Outline(roots)).call("project_outline", arguments))


NOTED = {
    "file.c": """\
#include <stdio.h>
struct point { int x; };  //: Struct point
typedef struct { int y; } Size;  //: Struct Size
typedef int (*callback)(int);  //: Type (*callback)(int)
enum color { RED };  //: Enum color
static struct point *make(int x);  //: Function make
int (*handler)(int);
struct point origin;
int main(int argc, char **argv) {  //: Function main to 12
  struct local { int a; };
  return 0;
}
""",
    "file.cpp": """\
namespace geo {  //: Namespace geo to 12
template <typename T> class Point : public Base {  //: - Class Point to 10
 public:
  Point(int x);  //: - - Method Point
  ~Point() {}  //: - - Method ~Point
  virtual int area() const = 0;  //: - - Method area
  bool operator==(const Point& o) const { return true; }  //: - - Method operator==
  struct Inner { void go(); };  //: - - Struct Inner | - - - Method go
  int field;
};
using Alias = Point<int>;  //: - Type Alias
}
int geo::Point::area() const { return 1; }  //: Method geo::Point::area
class Meter { operator int(); };  //: Class Meter | - Method operator int
auto lambda = [](int x) { return x; };
""",
    "file.cs": """\
namespace Shop {  //: Namespace Shop to 13
  [Serializable]  //: - Class Cart to 8
  public class Cart : ICart {
    public Cart(int x) { }  //: - - Method Cart
    public int Total { get; set; }
    public async Task<int> Add(Item item) { int Local(int y) => y; return Local(1); }  //: - - Method Add
    private class Inner { void M() {} }  //: - - Class Inner | - - - Method M
  }
  public record Money(decimal Amount);  //: - Record Money
  interface ICart { Task<int> Add(Item item); }  //: - Interface ICart | - - Method Add
  enum Kind { A }  //: - Enum Kind
  delegate void Handler(int x);  //: - Type Handler
}
""",
    "file.go": """\
package main
type Point struct { X int }  //: Struct Point
type Shape interface { Area() float64 }  //: Interface Shape | - Method Area
type ID int  //: Type ID
type Alias = Point  //: Type Alias
func (p *Point) Move(dx int) error { return nil }  //: Method Point.Move
func (Point) Zero() {}  //: Method Point.Zero
func (s Stack[T]) Pop() T { panic(1) }  //: Method Stack[T].Pop
func main() { f := func() {} ; f() }  //: Function main
func () Nameless() {}  //: Method Nameless
""",
    "file.java": """\
package a;
@Deprecated  //: Class Cart to 8
public class Cart<T> implements ICart {
  private int x = 1;
  public Cart(int x) { }  //: - Method Cart
  @Override public int total(int a, int b) throws E { return new Object() { int q() { return 1; } }.q(); }  //: - Method total
  enum Kind { A; void f() {} }  //: - Enum Kind | - - Method f
}
record Money(int amount) { Money { } }  //: Record Money | - Method Money
interface ICart { int total(int a, int b); }  //: Interface ICart | - Method total
@interface Note {}  //: Interface Note
""",  # noqa: E501
    "file.js": """\
import x from "y";
export default class Cart extends Base {  //: Class Cart to 7
  constructor() {}  //: - Method constructor
  static total = (a) => a;  //: - Method total
  async add(item) { function inner() {} }  //: - Method add
  get size() { return 1; }  //: - Method size
}
export const f = async (a) => { const g = () => 1; };  //: Function f
const h = function () {};  //: Function h
let A = class { m() {} };  //: Class A | - Method m
exports.foo = function (a) {};  //: Function exports.foo
function* gen() {}  //: Function gen
(function () { function wrapped() {} })();  //: Function wrapped
const n = 1;
class Fields { y = 2; static z; }  //: Class Fields
""",
    "file.php": """\
<?php
namespace Shop;  //: Namespace Shop
abstract class Cart implements ICart { public function add(int $x): int { return 1; } abstract function t(); }  //: Class Cart | - Method add | - Method t
interface ICart { public function add(int $x): int; }  //: Interface ICart | - Method add
trait Loud { function shout() {} }  //: Trait Loud | - Method shout
enum Kind: string { case A = "a"; public static function of() {} }  //: Enum Kind | - Method of
function helper(array $a) { }  //: Function helper
""",  # noqa: E501
    "file.rb": """\
module Shop  #: Module Shop to 10
  class Cart < Base  #: - Class Cart to 9
    def initialize(x); end  #: - - Method initialize
    def self.build(a, b: 1)  #: - - Method build to 5
    end
    class << self  #: - - Class self to 8
      def other; end  #: - - - Method other
    end
  end
end
def top; end  #: Method top
""",
    "file.rs": """\
mod a { pub fn f() {} }  //: Module a | - Function f
pub struct Point<T> { x: T }  //: Struct Point
enum Kind { A }  //: Enum Kind
trait Shape { fn area(&self) -> f64; fn name(&self) -> String { String::new() } }  //: Trait Shape | - Method area | - Method name
impl<T> Point<T> { pub fn new(x: T) -> Self { fn inner() {} Point { x } } }  //: Impl Point<T> | - Method new
impl Shape for Point<f64> { fn area(&self) -> f64 { 1.0 } }  //: Impl Shape for Point<f64> | - Method area
type Alias = Point<i32>;  //: Type Alias
macro_rules! hi { () => {} }  //: Macro hi
fn main() {}  //: Function main
""",  # noqa: E501
    "file.ts": """\
export interface ICart { add(item: Item): number; x: number }  //: Interface ICart | - Method add
export abstract class Cart<T> implements ICart {  //: Class Cart to 7
  constructor(private x: number) {}  //: - Method constructor
  add(item: Item): number { return 1; }  //: - Method add
  abstract total(): number;  //: - Method total
  handler = (a: number): void => {};  //: - Method handler
}
enum Kind { A }  //: Enum Kind
type Id = string | number;  //: Type Id
namespace N { export function f(): void {} }  //: Namespace N | - Function f
declare module "m" { function g(): void; }  //: Module "m" | - Function g
declare function h(x: number): string;  //: Function h
export const arrow = <T,>(x: T): T => x;  //: Function arrow
function over(a: string): void;  //: Function over
function over(a: any) {}  //: Function over
export default class {}
""",
    "file.tsx": """\
export const App = (props: Props) => { return <div onClick={() => 1}>hi</div>; };  //: Function App
function Foo() { return <b/>; }  //: Function Foo
""",
    "file.py": """\
import os
@decorator  #: Class A to 7
class A(Base, metaclass=M):
    class B:  #: - Class B to 5
        def inner(self, x: int = 1, *a, k=None, **kw) -> str: ...  #: - - Method inner
    async def f(self):  #: - Method f to 7
        def g(): pass
if True:
    def conditional(): pass  #: Function conditional
try:
    import x
except ImportError:
    class Fallback: pass  #: Class Fallback
""",
}
"""Each line says what begins in it, and where that ends if it is in another line; `- ` is for each level."""
_NOTES = re.compile("  (?://|#): (.*)")
SOURCES = {name: _NOTES.sub("", text) for name, text in NOTED.items()}


def _outline(name: str, text: str) -> str:
    """Return the outline of a file as its lines say it."""
    lines = [f"File: {name}"]
    for number, line in enumerate(text.splitlines(), 1):
        for levels, what, last in re.findall(r"((?:- )*)([^|]+?)( to \d+)?(?: \| |$)", "".join(_NOTES.findall(line))):
            lines.append(f"{'  ' * (len(levels) // 2)}- {what} [{number}{last.replace(' to ', '-')}]")
    return "\n".join(lines)


OUTLINES = {name: _outline(name, text) for name, text in NOTED.items()}


def test_each_language_has_its_definitions_in_order_with_their_lines(tmp_path: Path) -> None:
    for name, source in SOURCES.items():
        (tmp_path / name).write_text(source)
    assert outline(tmp_path).split("\n\n") == [OUTLINES[name] for name in sorted(OUTLINES)]


def test_signatures_show_parameters_and_base_classes(tmp_path: Path) -> None:
    for name in ("file.py", "file.java", "file.go", "file.cpp"):
        (tmp_path / name).write_text(SOURCES[name])
    assert outline(tmp_path, signatures=True) == snapshot("""\
File: file.cpp
- Namespace namespace geo [1-12]
  - Class class Point : public Base [2-10]
    - Method Point(int x) [4]
    - Method ~Point() [5]
    - Method virtual int area() const = 0 [6]
    - Method bool operator==(const Point& o) const [7]
    - Struct struct Inner [8]
      - Method void go() [8]
  - Type using Alias = Point<int> [11]
- Method int geo::Point::area() const [13]
- Class class Meter [14]
  - Method operator int() [14]

File: file.go
- Struct Point struct { X int } [2]
- Interface Shape interface { Area() float64 } [3]
  - Method Area() float64 [3]
- Type ID int [4]
- Type Alias = Point [5]
- Method func (p *Point) Move(dx int) error [6]
- Method func (Point) Zero() [7]
- Method func (s Stack[T]) Pop() T [8]
- Function func main() [9]
- Method func () Nameless() [10]

File: file.java
- Class @Deprecated public class Cart<T> implements ICart [2-8]
  - Method public Cart(int x) [5]
  - Method @Override public int total(int a, int b) throws E [6]
  - Enum enum Kind [7]
    - Method void f() [7]
- Record record Money(int amount) [9]
  - Method Money [9]
- Interface interface ICart [10]
  - Method int total(int a, int b) [10]
- Interface @interface Note [11]

File: file.py
- Class A(Base, metaclass=M) [2-7]
  - Class B [4-5]
    - Method inner(self, x: int=1, *a, k=None, **kw) -> str [5]
  - Method async f(self) [6-7]
- Function conditional() [9]
- Class Fallback [13]\
""")


def test_a_long_signature_is_cut(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(f"def f(a={list(range(1000))}): pass\n")
    text = outline(tmp_path, signatures=True)
    assert len(text) < 300
    assert "… [1]" in text


def test_a_file_and_a_file_uri_are_outlined_as_well_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/a.py").write_text("class A: pass\n")
    expected = "File: pkg/a.py\n- Class A [1]"
    uris = [".", "pkg", "pkg/a.py", str(tmp_path / "pkg"), (tmp_path / "pkg/a.py").as_uri()]
    assert [outline(tmp_path, uri=uri) for uri in uris] == [expected] * 5


def test_files_of_another_root_have_absolute_paths(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("class A: pass\n")
    text = outline(tmp_path / "one", tmp_path / "two", uri=str(tmp_path / "two"))
    assert text == f"File: {tmp_path}/two/a.py\n- Class A [1]"


def test_ignored_hidden_generated_and_declaration_files_are_left_out_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("build/a.py", ".hidden/b.py", "c.d.ts", "d.min.js", "e.go", "f_pb2.py", "g.py", "h.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("class A: pass\n")
    (tmp_path / "e.go").write_text("// Code generated by x. DO NOT EDIT.\npackage a\nfunc F() {}\n")
    (tmp_path / "l.js").write_text(f"let a = '{'x' * 30_000}'; function f() {{}}\n")
    assert outline(tmp_path) == snapshot("""\
File: g.py
- Class A [1]

Not outlined:
- d.min.js: a program has generated it. Pass its path as uri to outline it.
- e.go: a program has generated it. Pass its path as uri to outline it.
- f_pb2.py: a program has generated it. Pass its path as uri to outline it.
- l.js: it has a line of more than 20,000 bytes. Pass its path as uri to outline it.\
""")
    assert outline(tmp_path, uri="e.go") == "File: e.go\n- Function F [3]"
    assert outline(tmp_path, uri="build/a.py") == "File: build/a.py\n- Class A [1]"
    assert outline(tmp_path, uri="h.txt").endswith("h.txt: its language is not known. Read it instead.")


def test_nothing_to_outline_is_said(tmp_path: Path) -> None:
    assert outline(tmp_path) == "No matching files found."
    (tmp_path / "a.py").write_text("x = 1\n")
    assert outline(tmp_path) == "No structure extracted from files."
    assert outline(tmp_path, skip=5) == "There are no more files: skip=5 leaves out all."


def test_bad_arguments_and_missing_files_are_errors_for_the_model(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("")
    with pytest.raises(ToolError, match="skip of at least 0"):
        outline(tmp_path, skip=-1)
    with pytest.raises(ToolError, match=r"no file or folder 'modul\.py'.*module\.py"):
        outline(tmp_path, uri="modul.py")
    with pytest.raises(ToolError, match="outside of the folders"):
        outline(tmp_path, uri="..")


def test_a_hundred_files_are_shown_and_the_rest_by_skip(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / f"m{number:03}.py").write_text(f"class C{number}: pass\n")
    first, second = outline(tmp_path), outline(tmp_path, skip=100)
    assert first.startswith("(Limit reached: showing first 100 files. Go on with skip=100.)\n\nFile: m000.py\n")
    assert first.count("File: ") == 100
    assert [line for line in second.splitlines() if line.startswith("File")] == [
        f"File: m{n}.py" for n in range(100, 105)
    ]
    assert "Limit" not in second


def test_a_long_result_is_cut_between_files_and_goes_on_by_skip(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"m{number}.py").write_text("".join(f"def function_{i}(): pass\n" for i in range(50)))
    kit = Toolkit("outline").add(Outline(tmp_path, max_output_chars=4_000))
    texts, skip = [], 0
    while True:
        texts.append(str(kit.call("project_outline", {"skip": skip})))
        if "Limit reached" not in texts[-1]:
            break
        skip = int(texts[-1].split("skip=")[1].split(".")[0])
    assert len(texts) > 1
    assert all(len(text) < 4_200 for text in texts)
    assert ["".join(texts).count(f"File: m{number}.py") for number in range(6)] == [1] * 6


def test_a_file_of_many_definitions_says_from_which_line_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text("".join(f"def f{i}(): pass\n" for i in range(5_000)))
    text = outline(tmp_path)
    assert text.count("- Function") == 1_000
    assert text.endswith("(Limit reached: the file defines more after line 1000. Search in it for the rest.)")


def test_the_definitions_of_one_file_are_cut_where_the_result_is_full(tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text("".join(f"def f{i}(): pass\n" for i in range(500)))
    kit = Toolkit("outline").add(Outline(tmp_path, max_output_chars=1_000))
    text = str(kit.call("project_outline", {}))
    assert len(text) < 1_200
    assert "(Limit reached: the file defines more after line " in text


def test_many_files_that_are_left_out_are_counted(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"m{number:02}.py").write_text("def (")
    assert outline(tmp_path).endswith("in line 1\n- and 10 more files")


def test_names_cannot_hide_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.rb").write_text("class A\u202e\nend\n")
    (tmp_path / "b\u202e.py").write_text("class A: pass\n")
    assert "\u202e" not in outline(tmp_path)


@pytest.mark.exhaustive
def test_every_module_of_this_package_is_outlined() -> None:
    package = Path(ahvn_tools.__file__).parent
    texts, skip = [], 0
    while not texts or "Limit reached" in texts[-1]:
        texts.append(outline(package, skip=skip))
        skip = int(texts[-1].split("skip=")[1].split(".")[0]) if "Limit reached" in texts[-1] else 0
    text = "\n".join(texts)
    (left_out,) = text.partition("Not outlined:\n")[2].splitlines()[:1]
    assert (text.count("Not outlined"), left_out.partition(":")[0]) == (1, "- ui/static/vendor/uplot.js")  # minified
    assert "File: toolkit/toolkit.py\n" in text
    files = [path for path in package.rglob("*.py") if "class " in path.read_text() or "def " in path.read_text()]
    assert text.count("File: ") >= len(files) - 5


@pytest.mark.exhaustive
def test_without_the_grammars_python_is_outlined_and_the_fix_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A: pass\n")
    (tmp_path / "b.go").write_text("package b\n")
    (tmp_path / "c.rs").write_text("fn f() {}\n")
    code = textwrap.dedent("""
        import sys

        class NoGrammars:
            def find_spec(self, name, path=None, target=None):
                if name.startswith("tree_sitter"):
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, NoGrammars())
        from ahvn_tools import Toolkit
        from ahvn_tools.builtins.workspace.outline import OutlineTools

        class Outline(OutlineTools):
            pass

        print(Toolkit("outline").add(Outline(sys.argv[1])).call("project_outline", {}))
    """)
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == snapshot("""\
File: a.py
- Class A [1]

Not outlined:
- 2 files of Go, Rust: this needs `pip install "ahvn-tools[outline]"` where the tool runs.\
""")
