// The page as one HTML file: its modules, each as a function, its style and the recorded answers. No build step: the
// modules are read from the server, and their imports become lookups.

const NAMES = /^export (?:async )?(?:function|class|const|let) (\w+)/gm;
const IMPORT = /^import \{([^}]*)\} from "\.\/([\w.]+)";\n/gm;

const isPlain = (text) => !/^export (?!(?:async )?(?:function|class|const|let) )/m.test(text);

// Each module once, after those that it imports.
async function collect(name, read, found) {
  if (found.has(name)) return;
  const text = await read(name);
  if (!isPlain(text)) throw new Error(`${name} exports in a form that cannot be bundled`);
  for (const [, , other] of text.matchAll(IMPORT)) await collect(other, read, found);
  found.set(name, text);
}

function asFunction(name, text) {
  const names = [...text.matchAll(NAMES)].map(([, exported]) => exported);
  const body = text
    .replaceAll(
      IMPORT,
      (_, wanted, other) => `const {${wanted.replaceAll(/(\w+) as (\w+)/g, "$1: $2")}} = modules["${other}"];\n`,
    )
    .replaceAll(/^export /gm, "");
  return `modules["${name}"] = await (async () => {\n${body}\nreturn { ${names.join(", ")} };\n})();\n`;
}

// A text that can stand inside a script element.
const inert = (text) => text.replaceAll("<", "\\u003c");

// read(name): the text of a file of the page; recording: {scene, answers}.
export async function bundle(read, recording, title) {
  const modules = new Map();
  await collect("app.js", read, modules);
  const code = [...modules].map(([name, text]) => asFunction(name, text)).join("");
  const [html, style, icon] = await Promise.all(["index.html", "style.css", "icon.svg"].map(read));
  const policy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'";
  const head = [
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    `<link rel="icon" href="data:image/svg+xml,${encodeURIComponent(icon)}">`,
    `<style>\n${style}</style>`,
    `<script>globalThis.tutelageRecording = ${inert(JSON.stringify(recording))};</script>`,
    `<script type="module">const modules = {};\n${code.replaceAll("</script", "<\\/script")}</script>`,
  ].join("\n");
  return html
    .replaceAll(/<(link|script) [^>]*>(<\/script>)?\n/g, "")
    .replace(/<title>[^<]*<\/title>/, () => `<title>${title}</title>`)
    .replace("</head>", () => `${head}\n</head>`);
}
