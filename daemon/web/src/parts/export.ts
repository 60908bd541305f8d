// Plots as files: the picture as PNG or SVG, the numbers as CSV.

export function download(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name.replace(/[^\w.-]+/g, "_").slice(0, 120);
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function cell(value: string|number): string {
  let text = String(value);
  // A spreadsheet must not take a name for a formula.
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, "\"\"")}"` : text;
}

export function csv(name: string, rows: (string|number)[][]): void {
  const text = rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  download(`${name}.csv`, new Blob([text], {type: "text/csv"}));
}

export function svgFile(name: string, picture: string): void {
  if (picture !== "") download(`${name}.svg`, new Blob([picture], {type: "image/svg+xml"}));
}

/** The canvas under its title, on the page's background. */
export function png(
    name: string, canvas: HTMLCanvasElement, title: string, background: string,
    color: string): void {
  const ratio = canvas.width / Math.max(canvas.clientWidth, 1);
  const head = Math.round(28 * ratio);
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height + head;
  const draw = copy.getContext("2d");
  if (draw === null) return;
  draw.fillStyle = background;
  draw.fillRect(0, 0, copy.width, copy.height);
  draw.fillStyle = color;
  draw.font = `${Math.round(13 * ratio)}px sans-serif`;
  draw.textBaseline = "middle";
  draw.fillText(title, 8 * ratio, head / 2, copy.width - 16 * ratio);
  draw.drawImage(canvas, 0, head);
  copy.toBlob((blob) => {
    if (blob !== null) download(`${name}.png`, blob);
  });
}
