// Colors code by comments, strings, numbers and keywords. One expression per family of languages, so that it stays small
// and its cost is linear; what it does not know is left as it is.

import { el } from "./dom.js";

const MAX_CODE = 60000; // characters; longer code is not colored

const words = (text) => new Set(text.split(" "));
const C_WORDS = words("abstract as async await auto bool boolean break case catch char class const constexpr continue def default delete do double else enum explicit export extends extern false final finally float fn for foreach friend from func function go goto if impl implements import in inline instanceof int interface is let long loop match mod mut namespace new nil noexcept null nullptr operator override package private protected pub public ref return self short signed sizeof static struct super switch template this throw throws trait true try type typedef typename typeof union unsafe unsigned use using var virtual void volatile where while with yield");
const PYTHON_WORDS = words("and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield");
const SHELL_WORDS = words("if then else elif fi for while until do done case esac in function return local export readonly set unset echo cd exit source sudo");
const SQL_WORDS = words("select from where and or not null is in as on join left right inner outer full group by order having limit offset insert into values update set delete create table alter drop index view primary key foreign references unique default case when then else end distinct union all exists between like asc desc with");

const STRING = `"(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*'`;
const NUMBER = `\\b(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\b`;
const WORD = `[A-Za-z_$][\\w$]*`;

const family = (comment, string, keywords, ignoreCase = false) => ({
  pattern: new RegExp(`(${comment})|(${string})|(${NUMBER})|(${WORD})`, "g"), keywords, ignoreCase });

const C_LIKE = family(`//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)`, `${STRING}|\`(?:[^\`\\\\]|\\\\.)*(?:\`|$)`, C_WORDS);
const PYTHON = family(`#[^\\n]*`, `"""[\\s\\S]*?(?:"""|$)|'''[\\s\\S]*?(?:'''|$)|${STRING}`, PYTHON_WORDS);
const SHELL = family(`(?<![\\w$])#[^\\n]*`, STRING, SHELL_WORDS);
const SQL = family(`--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)`, STRING, SQL_WORDS, true);
const DATA = family(`(?<![\\w"'])#[^\\n]*|//[^\\n]*`, STRING, words("true false null yes no on off"));
const MARKUP = { pattern: /(<!--[\s\S]*?(?:-->|$))|("[^"\n]*"|'[^'\n]*')|(\b\d+\b)|(<\/?[A-Za-z][\w:-]*)/g, keywords: null };

const LANGUAGES = { python: PYTHON, py: PYTHON, sh: SHELL, bash: SHELL, shell: SHELL, console: SHELL, zsh: SHELL, dockerfile: SHELL,
  sql: SQL, json: DATA, jsonc: DATA, yaml: DATA, yml: DATA, toml: DATA, ini: DATA, html: MARKUP, xml: MARKUP, svg: MARKUP,
  text: null, txt: null, plain: null, plaintext: null, markdown: null, md: null, diff: null, "": null };

// Text and span nodes.
export function highlight(text, language = "") {
  const name = language.toLowerCase();
  const rules = name in LANGUAGES ? LANGUAGES[name] : C_LIKE;
  if (rules === null || text.length > MAX_CODE) return [text];
  const out = [];
  let last = 0;
  for (const match of text.matchAll(rules.pattern)) {
    const [whole, comment, string, number, word] = match;
    let kind = comment !== undefined ? "comment" : string !== undefined ? "string" : number !== undefined ? "number" : "";
    if (word !== undefined) {
      const known = rules.keywords === null || rules.keywords.has(rules.ignoreCase ? word.toLowerCase() : word);
      if (known) kind = "keyword";
      else if (text[match.index + word.length] === "(") kind = "call";
    }
    if (kind === "" || whole === "") continue;
    if (match.index > last) out.push(text.slice(last, match.index));
    out.push(el("span", { class: `hl-${kind}` }, whole));
    last = match.index + whole.length;
  }
  if (last < text.length) out.push(text.slice(last));
  return out;
}
