// SVG files: elements as text, and the sheet that puts a title above a picture.
import {themed} from "./palette";

const TITLE_PX = 28;

export const escaped = (text: string): string =>
    text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
        .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");

export const round = (value: number): string => String(Math.round(value * 100) / 100);

type Values = {
  [name: string]: string|number|undefined
};
export function element(tag: string, values: Values, content = ""): string {
  const attributes =
      Object.entries(values)
          .filter(([, value]) => value !== undefined)
          .map(
              ([name, value]) =>
                  ` ${name}="${typeof value === "number" ? round(value) : escaped(String(value))}"`)
          .join("");
  return `<${tag}${attributes}>${content}</${tag}>`;
}

/** A file: `content`, which has this width and height, below its title. */
export function sheet(title: string, width: number, height: number, content: string): string {
  const all = {width, height: height + TITLE_PX};
  const heading = element(
      "text", {x: 8, y: TITLE_PX / 2 + 5, "font-size": 13, fill: themed("text")}, escaped(title));
  return element(
      "svg",
      {xmlns: "http://www.w3.org/2000/svg", ...all, "font-family": "sans-serif", "font-size": 11},
      element("title", {}, escaped(title)) + element("rect", {...all, fill: themed("card")}) +
          heading + element("g", {transform: `translate(0 ${TITLE_PX})`}, content));
}
