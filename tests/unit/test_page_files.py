"""What browsers get of the page's files: all code, without comments and indentation."""

from gym_http_server.web.dashboard.routes import _page_files, _without_comments


def test_comments_and_indentation_are_left_out() -> None:
    source = b"""/** A file. */
import { a } from "./a.js";
/**
 * A function.
 * @param {number} x
 */
export function f(x) {
  // Half.
  const url = "http://example.org/*not-a-comment*/";
  return a(x)
    * 0.5; // kept
}
/* one line */
"""
    assert _without_comments(source) == (
        b'import { a } from "./a.js";\n'
        b"export function f(x) {\n"
        b'const url = "http://example.org/*not-a-comment*/";\n'
        b"return a(x)\n"
        b"* 0.5; // kept\n"
        b"}\n"
    )


def test_all_files_of_the_page_keep_their_code() -> None:
    files = _page_files()
    assert files["index.html"].content.startswith(b"<!doctype html>\n<html")
    assert b"}.view{display:grid;" in files["style.css"].content
    for name, file in files.items():
        if name.endswith(".js"):
            assert b"/**" not in file.content, name
            assert file.content.count(b"{") >= file.content.count(b"export function")
