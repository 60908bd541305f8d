// What TypeScript files import and which functions they have, by TypeScript's own parser.
//
//   node tests/lint/typescript.cjs a.ts b.ts
//   {"a.ts": {"imports": [[1, "./b"]], "functions": [[3, "draw", 12]]}, ...}
//
// [line, module] and [line, name, lines]; types count as imports. A class is no function, its methods are.
const fs = require("fs");
const ts = require("/usr/share/nodejs/typescript");

function read(file) {
  const source =
      ts.createSourceFile(file, fs.readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true);
  const lineOf = (position) => source.getLineAndCharacterOfPosition(position).line + 1;
  const found = {imports: [], functions: []};
  const visit = (node) => {
    const begin = lineOf(node.getStart(source));
    if ((ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) && node.moduleSpecifier)
      found.imports.push([begin, node.moduleSpecifier.text]);
    if (ts.isFunctionLike(node) && node.body) {
      const name = (node.name ?? node.parent.name)?.getText(source) ?? "a function";
      found.functions.push([begin, name, lineOf(node.end) - begin + 1]);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const files = process.argv.slice(2);
console.log(JSON.stringify(Object.fromEntries(files.map((file) => [file, read(file)]))));
