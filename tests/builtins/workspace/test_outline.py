"""project_outline: what files define, in each language."""

from __future__ import annotations

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


SOURCES = {
    "file.c": """\
#include <stdio.h>
struct point { int x; };
typedef struct { int y; } Size;
typedef int (*callback)(int);
enum color { RED };
static struct point *make(int x);
int (*handler)(int);
struct point origin;
int main(int argc, char **argv) {
  struct local { int a; };
  return 0;
}
""",
    "file.cpp": """\
namespace geo {
template <typename T> class Point : public Base {
 public:
  Point(int x);
  ~Point() {}
  virtual int area() const = 0;
  bool operator==(const Point& o) const { return true; }
  struct Inner { void go(); };
  int field;
};
using Alias = Point<int>;
}
int geo::Point::area() const { return 1; }
class Meter { operator int(); };
auto lambda = [](int x) { return x; };
""",
    "file.cs": """\
namespace Shop {
  [Serializable]
  public class Cart : ICart {
    public Cart(int x) { }
    public int Total { get; set; }
    public async Task<int> Add(Item item) { int Local(int y) => y; return Local(1); }
    private class Inner { void M() {} }
  }
  public record Money(decimal Amount);
  interface ICart { Task<int> Add(Item item); }
  enum Kind { A }
  delegate void Handler(int x);
}
""",
    "file.go": """\
package main
type Point struct { X int }
type Shape interface { Area() float64 }
type ID int
type Alias = Point
func (p *Point) Move(dx int) error { return nil }
func (Point) Zero() {}
func (s Stack[T]) Pop() T { panic(1) }
func main() { f := func() {} ; f() }
func () Nameless() {}
""",
    "file.java": """\
package a;
@Deprecated
public class Cart<T> implements ICart {
  private int x = 1;
  public Cart(int x) { }
  @Override public int total(int a, int b) throws E { return new Object() { int q() { return 1; } }.q(); }
  enum Kind { A; void f() {} }
}
record Money(int amount) { Money { } }
interface ICart { int total(int a, int b); }
@interface Note {}
""",
    "file.js": """\
import x from "y";
export default class Cart extends Base {
  constructor() {}
  static total = (a) => a;
  async add(item) { function inner() {} }
  get size() { return 1; }
}
export const f = async (a) => { const g = () => 1; };
const h = function () {};
let A = class { m() {} };
exports.foo = function (a) {};
function* gen() {}
(function () { function wrapped() {} })();
const n = 1;
class Fields { y = 2; static z; }
""",
    "file.php": """\
<?php
namespace Shop;
abstract class Cart implements ICart { public function add(int $x): int { return 1; } abstract function t(); }
interface ICart { public function add(int $x): int; }
trait Loud { function shout() {} }
enum Kind: string { case A = "a"; public static function of() {} }
function helper(array $a) { }
""",
    "file.rb": """\
module Shop
  class Cart < Base
    def initialize(x); end
    def self.build(a, b: 1)
    end
    class << self
      def other; end
    end
  end
end
def top; end
""",
    "file.rs": """\
mod a { pub fn f() {} }
pub struct Point<T> { x: T }
enum Kind { A }
trait Shape { fn area(&self) -> f64; fn name(&self) -> String { String::new() } }
impl<T> Point<T> { pub fn new(x: T) -> Self { fn inner() {} Point { x } } }
impl Shape for Point<f64> { fn area(&self) -> f64 { 1.0 } }
type Alias = Point<i32>;
macro_rules! hi { () => {} }
fn main() {}
""",
    "file.ts": """\
export interface ICart { add(item: Item): number; x: number }
export abstract class Cart<T> implements ICart {
  constructor(private x: number) {}
  add(item: Item): number { return 1; }
  abstract total(): number;
  handler = (a: number): void => {};
}
enum Kind { A }
type Id = string | number;
namespace N { export function f(): void {} }
declare module "m" { function g(): void; }
declare function h(x: number): string;
export const arrow = <T,>(x: T): T => x;
function over(a: string): void;
function over(a: any) {}
export default class {}
""",
    "file.tsx": """\
export const App = (props: Props) => { return <div onClick={() => 1}>hi</div>; };
function Foo() { return <b/>; }
""",
    "file.py": """\
import os
@decorator
class A(Base, metaclass=M):
    class B:
        def inner(self, x: int = 1, *a, k=None, **kw) -> str: ...
    async def f(self):
        def g(): pass
if True:
    def conditional(): pass
try:
    import x
except ImportError:
    class Fallback: pass
""",
}

OUTLINES = {
    "file.c": snapshot("""\
File: file.c
- Struct point [2]
- Struct Size [3]
- Type (*callback)(int) [4]
- Enum color [5]
- Function make [6]
- Function main [9-12]\
"""),
    "file.cpp": snapshot("""\
File: file.cpp
- Namespace geo [1-12]
  - Class Point [2-10]
    - Method Point [4]
    - Method ~Point [5]
    - Method area [6]
    - Method operator== [7]
    - Struct Inner [8]
      - Method go [8]
  - Type Alias [11]
- Method geo::Point::area [13]
- Class Meter [14]
  - Method operator int [14]\
"""),
    "file.cs": snapshot("""\
File: file.cs
- Namespace Shop [1-13]
  - Class Cart [2-8]
    - Method Cart [4]
    - Method Add [6]
    - Class Inner [7]
      - Method M [7]
  - Record Money [9]
  - Interface ICart [10]
    - Method Add [10]
  - Enum Kind [11]
  - Type Handler [12]\
"""),
    "file.go": snapshot("""\
File: file.go
- Struct Point [2]
- Interface Shape [3]
  - Method Area [3]
- Type ID [4]
- Type Alias [5]
- Method Point.Move [6]
- Method Point.Zero [7]
- Method Stack[T].Pop [8]
- Function main [9]
- Method Nameless [10]\
"""),
    "file.java": snapshot("""\
File: file.java
- Class Cart [2-8]
  - Method Cart [5]
  - Method total [6]
  - Enum Kind [7]
    - Method f [7]
- Record Money [9]
  - Method Money [9]
- Interface ICart [10]
  - Method total [10]
- Interface Note [11]\
"""),
    "file.js": snapshot("""\
File: file.js
- Class Cart [2-7]
  - Method constructor [3]
  - Method total [4]
  - Method add [5]
  - Method size [6]
- Function f [8]
- Function h [9]
- Class A [10]
  - Method m [10]
- Function exports.foo [11]
- Function gen [12]
- Function wrapped [13]
- Class Fields [15]\
"""),
    "file.php": snapshot("""\
File: file.php
- Namespace Shop [2]
- Class Cart [3]
  - Method add [3]
  - Method t [3]
- Interface ICart [4]
  - Method add [4]
- Trait Loud [5]
  - Method shout [5]
- Enum Kind [6]
  - Method of [6]
- Function helper [7]\
"""),
    "file.rb": snapshot("""\
File: file.rb
- Module Shop [1-10]
  - Class Cart [2-9]
    - Method initialize [3]
    - Method build [4-5]
    - Class self [6-8]
      - Method other [7]
- Method top [11]\
"""),
    "file.rs": snapshot("""\
File: file.rs
- Module a [1]
  - Function f [1]
- Struct Point [2]
- Enum Kind [3]
- Trait Shape [4]
  - Method area [4]
  - Method name [4]
- Impl Point<T> [5]
  - Method new [5]
- Impl Shape for Point<f64> [6]
  - Method area [6]
- Type Alias [7]
- Macro hi [8]
- Function main [9]\
"""),
    "file.ts": snapshot("""\
File: file.ts
- Interface ICart [1]
  - Method add [1]
- Class Cart [2-7]
  - Method constructor [3]
  - Method add [4]
  - Method total [5]
  - Method handler [6]
- Enum Kind [8]
- Type Id [9]
- Namespace N [10]
  - Function f [10]
- Module "m" [11]
  - Function g [11]
- Function h [12]
- Function arrow [13]
- Function over [14]
- Function over [15]\
"""),
    "file.tsx": snapshot("""\
File: file.tsx
- Function App [1]
- Function Foo [2]\
"""),
    "file.py": snapshot("""\
File: file.py
- Class A [2-7]
  - Class B [4-5]
    - Method inner [5]
  - Method f [6-7]
- Function conditional [9]
- Class Fallback [13]\
"""),
}


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
    assert "Not outlined" not in text
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
