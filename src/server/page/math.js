// TeX formulas to MathML, which browsers draw themselves. It covers what models write: fractions, roots, scripts, Greek
// letters, operators, accents, delimiters and matrices. An unknown command is shown by its name; a formula that does not
// parse is shown as its source.

import { COMMANDS, FUNCTIONS, LARGE, OPERATORS } from "./math_symbols.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MAX_DEPTH = 40;

function m(tag, attributes, ...children) {
  const node = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value);
  for (const child of children) node.append(child);
  return node;
}

const TOKEN = /\\([A-Za-z]+\*?|[^A-Za-z])|\d+(?:\.\d+)?|[^\s\\]|\s+/gu;

function tokenize(source) {
  const tokens = [];
  for (const match of source.replace(/(^|[^\\])%[^\n]*/g, "$1").matchAll(TOKEN)) tokens.push(match[0]);
  return tokens;
}

const ACCENTS = { hat: "^", widehat: "^", bar: "¯", overline: "¯", vec: "→", overrightarrow: "→", tilde: "~", widetilde: "~", dot: "˙", ddot: "¨", overbrace: "⏞" };
const UNDERS = { underline: "_", underbrace: "⏟" };
const FONTS = { mathrm: "normal", operatorname: "normal", "operatorname*": "normal", mathbf: "bold", boldsymbol: "bold", bm: "bold", mathit: "italic", mathsf: "sans-serif", mathtt: "monospace",
  mathbb: "double-struck", mathcal: "script", mathscr: "script", mathfrak: "fraktur" };
const SPACES = { ",": "0.17em", ":": "0.22em", ";": "0.28em", "!": "-0.17em", " ": "0.25em", quad: "1em", qquad: "2em", enspace: "0.5em", thinspace: "0.17em" };
const ENVIRONMENTS = { matrix: ["", ""], pmatrix: ["(", ")"], bmatrix: ["[", "]"], Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"],
  cases: ["{", ""], array: ["", ""], aligned: ["", ""], align: ["", ""], "align*": ["", ""], gathered: ["", ""], gather: ["", ""], "gather*": ["", ""], split: ["", ""], smallmatrix: ["", ""], equation: ["", ""], "equation*": ["", ""] };
const IGNORED = new Set(["displaystyle", "textstyle", "limits", "nolimits", "nonumber", "notag", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr", "middle", "hline", "rm", "bf"]);

// Letters of the mathematical alphabets; letters that Unicode had before keep their old place.
const ALPHABETS = { "double-struck": [0x1d538, 0x1d552, { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" }],
  script: [0x1d49c, 0x1d4b6, { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" }],
  fraktur: [0x1d504, 0x1d51e, { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" }], bold: [0x1d400, 0x1d41a, {}],
  "sans-serif": [0x1d5a0, 0x1d5ba, {}], monospace: [0x1d670, 0x1d68a, {}] };

function styled(letter, font) {
  const alphabet = ALPHABETS[font];
  if (!alphabet) return letter;
  const [upper, lower, special] = alphabet;
  if (special[letter]) return special[letter];
  const code = letter.codePointAt(0);
  if (code >= 65 && code <= 90) return String.fromCodePoint(upper + code - 65);
  if (code >= 97 && code <= 122) return String.fromCodePoint(lower + code - 97);
  return letter;
}

class Parser {
  constructor(source) {
    this.tokens = tokenize(source);
    this.at = 0;
    this.depth = 0;
    this.font = "";
  }
  peek() {
    while (this.at < this.tokens.length && /^\s+$/.test(this.tokens[this.at])) ++this.at;
    return this.tokens[this.at];
  }
  next() {
    const token = this.peek();
    ++this.at;
    return token;
  }
  expect(token) {
    if (this.next() !== token) throw new Error(`expected ${token}`);
  }

  // Terms up to one of the tokens in `ends`, which is not consumed.
  row(ends) {
    if (++this.depth > MAX_DEPTH) throw new Error("too deep");
    const nodes = [];
    while (true) {
      const token = this.peek();
      if (token === undefined || ends.includes(token)) break;
      const node = this.scripted();
      if (node) nodes.push(node);
    }
    --this.depth;
    return nodes;
  }
  wrapped(ends) {
    const nodes = this.row(ends);
    return nodes.length === 1 ? nodes[0] : m("mrow", {}, ...nodes);
  }

  // A term with its sub- and superscripts.
  scripted() {
    let base = this.term();
    let sub = null;
    let sup = null;
    while (true) {
      const token = this.peek();
      if (token === "_" && !sub) {
        this.next();
        sub = this.argument();
      } else if (token === "^" && !sup) {
        this.next();
        sup = this.argument();
      } else if (token === "'" && !sup) {
        let primes = "";
        while (this.peek() === "'") primes += this.next() && "′";
        sup = m("mo", {}, primes);
      } else if (token === "\\limits" || token === "\\nolimits") {
        this.next();
      } else {
        break;
      }
    }
    if (!sub && !sup) return base;
    base ??= m("mrow");
    const limits = base.dataset?.limits === "1";
    if (sub && sup) return m(limits ? "munderover" : "msubsup", {}, base, sub, sup);
    if (sub) return m(limits ? "munder" : "msub", {}, base, sub);
    return m(limits ? "mover" : "msup", {}, base, sup);
  }

  argument() {
    const token = this.peek();
    if (token === undefined) throw new Error("an argument is missing");
    if (token === "{") {
      this.next();
      const node = this.wrapped(["}"]);
      this.expect("}");
      return node;
    }
    // x^23 is x to the 2, followed by 3.
    if (/^\d\d/.test(token)) {
      this.tokens[this.at] = token.slice(1);
      return m("mn", {}, token[0]);
    }
    return this.term() ?? m("mrow");
  }
  // The characters of {...}, as written.
  rawArgument() {
    this.expect("{");
    let depth = 1;
    let text = "";
    while (this.at < this.tokens.length) {
      const token = this.tokens[this.at++];
      if (token === "{") ++depth;
      if (token === "}" && --depth === 0) return text;
      text += token;
    }
    throw new Error("} is missing");
  }

  term() {
    const token = this.next();
    if (token === "{") {
      const node = this.wrapped(["}"]);
      this.expect("}");
      return node;
    }
    if (token === "}" || token === "&" ) throw new Error(`unexpected ${token}`);
    if (token === "^" || token === "_") {
      --this.at;
      return null;
    }
    if (token.startsWith("\\")) return this.command(token.slice(1));
    if (/^\d/.test(token)) return m("mn", {}, token);
    if (/\p{L}/u.test(token)) return this.letter(token);
    if (token === "~") return m("mspace", { width: "0.33em" });
    const text = token === "-" ? "−" : token === "*" ? "∗" : token;
    const fence = "()[]|".includes(token);
    return m("mo", fence ? { stretchy: "false" } : {}, text);
  }
  letter(text) {
    if (this.font === "normal") return m("mi", { mathvariant: "normal" }, text);
    return m("mi", {}, styled(text, this.font));
  }

  command(name) {
    if (name === "\\" || name === "cr") return m("mspace", { linebreak: "newline" });
    if (name in SPACES) return m("mspace", { width: SPACES[name] });
    if ("{}$%&#_".includes(name)) return m("mo", { stretchy: "false" }, name);
    if (name === "|") return m("mo", { stretchy: "false" }, "‖");
    if (name in COMMANDS) return m("mi", /[A-Z]/.test(name[0]) ? { mathvariant: "normal" } : {}, COMMANDS[name]);
    if (name in LARGE) return this.withLimits(m("mo", { largeop: "true" }, LARGE[name]), !name.includes("int"));
    if (name in OPERATORS) return m("mo", {}, OPERATORS[name]);
    if (FUNCTIONS.has(name)) return this.withLimits(m("mi", { mathvariant: "normal" }, name === "argmax" ? "arg max" : name), /^(lim|max|min|sup|inf|limsup|liminf|argmax|argmin)$/.test(name));
    return this.structure(name);
  }
  withLimits(node, limits) {
    if (limits) node.dataset.limits = "1";
    return node;
  }

  structure(name) {
    if (/^[dtc]?frac$/.test(name)) return m("mfrac", {}, this.argument(), this.argument());
    if (/^[dt]?binom$/.test(name)) {
      const inner = m("mfrac", { linethickness: "0" }, this.argument(), this.argument());
      return m("mrow", {}, m("mo", {}, "("), inner, m("mo", {}, ")"));
    }
    if (name === "sqrt") return this.root();
    if (name in ACCENTS) {
      const node = m("mover", { accent: "true" }, this.argument(), m("mo", { stretchy: /over|wide/.test(name) ? "true" : "false" }, ACCENTS[name]));
      return this.withLimits(node, name === "overbrace");
    }
    if (name in UNDERS) return this.withLimits(m("munder", {}, this.argument(), m("mo", {}, UNDERS[name])), name === "underbrace");
    if (/^(text|textrm|textbf|textit|texttt|mbox)$/.test(name)) return m("mtext", name === "textbf" ? { class: "bold" } : {}, this.rawArgument());
    if (name in FONTS) return this.inFont(FONTS[name]);
    if (name === "left") return this.delimited();
    if (name === "begin") return this.environment(this.rawArgument());
    if (name === "boxed") return m("mrow", { class: "boxed" }, this.argument());
    if (name === "overset" || name === "stackrel") {
      const over = this.argument();
      return m("mover", {}, this.argument(), over);
    }
    if (name === "underset") {
      const under = this.argument();
      return m("munder", {}, this.argument(), under);
    }
    if (name === "pmod") return m("mrow", {}, m("mtext", {}, " (mod "), this.argument(), m("mtext", {}, ")"));
    if (name === "not") return m("mrow", {}, m("mo", {}, `${this.next()?.replace(/^\\in$/, "∈").replace(/^\\/, "") ?? ""}\u0338`));
    if (name === "tag" || name === "label") {
      const text = this.rawArgument();
      return name === "tag" ? m("mtext", {}, ` (${text})`) : null;
    }
    if (IGNORED.has(name)) return null;
    return m("mtext", { class: "unknown" }, `\\${name}`);
  }
  inFont(font) {
    const before = this.font;
    this.font = font;
    const node = this.argument();
    this.font = before;
    return node;
  }
  root() {
    if (this.peek() !== "[") return m("msqrt", {}, this.argument());
    this.next();
    const index = this.wrapped(["]"]);
    this.expect("]");
    return m("mroot", {}, this.argument(), index);
  }
  delimiter() {
    const token = this.next();
    if (token === undefined) throw new Error("a delimiter is missing");
    if (token === ".") return "";
    if (!token.startsWith("\\")) return token;
    const name = token.slice(1);
    return OPERATORS[name] ?? COMMANDS[name] ?? (name === "|" ? "‖" : name);
  }
  delimited() {
    const open = this.delimiter();
    const inner = this.row(["\\right"]);
    this.expect("\\right");
    const close = this.delimiter();
    return m("mrow", {}, ...fence(open, "prefix"), ...inner, ...fence(close, "postfix"));
  }

  environment(name) {
    const delimiters = ENVIRONMENTS[name];
    if (!delimiters) throw new Error(`unknown environment ${name}`);
    if (name === "array" && this.peek() === "{") this.rawArgument();
    const rows = [];
    let cells = [];
    while (true) {
      const nodes = this.row(["&", "\\\\", "\\end"]);
      cells.push(m("mtd", {}, ...nodes));
      const token = this.next();
      if (token === "&") continue;
      rows.push(cells);
      cells = [];
      if (token === "\\end") break;
      if (token === undefined) throw new Error("\\end is missing");
    }
    this.rawArgument();
    if (rows.length > 1 && rows.at(-1).length === 1 && !rows.at(-1)[0].hasChildNodes()) rows.pop();
    const kind = /^(align|split)/.test(name) ? "aligned" : name === "cases" ? "cases" : "matrix";
    const table = m("mtable", { class: kind, displaystyle: kind === "aligned" ? "true" : "false" }, ...rows.map((r) => m("mtr", {}, ...r)));
    return m("mrow", {}, ...fence(delimiters[0], "prefix"), table, ...fence(delimiters[1], "postfix"));
  }
}

function fence(text, form) {
  return text === "" ? [] : [m("mo", { fence: "true", stretchy: "true", form }, text)];
}

// A <math> element, or the source as code.
export function renderMath(source, display) {
  const math = m("math", display ? { display: "block" } : {});
  try {
    const parser = new Parser(source);
    const nodes = parser.row([]);
    math.append(m("mrow", {}, ...nodes));
  } catch {
    const code = document.createElement("code");
    code.textContent = source;
    return code;
  }
  math.setAttribute("aria-label", source);
  return math;
}
