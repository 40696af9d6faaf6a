// Draws what a browser shows of a page as SVG text: boxes, rules, words and the static charts.
//
// Called by screenshots.py with the height of the picture (px). Returns the SVG document.
(height) => {
  const NS = "http://www.w3.org/2000/svg";
  const width = document.documentElement.clientWidth;
  const svg = document.createElementNS(NS, "svg");
  const rounded = (value) => Math.round(value * 10) / 10;

  function set(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      element.setAttribute(name, typeof value === "number" ? rounded(value) : value);
    }
    return element;
  }

  function draw(tag, attributes) {
    return svg.appendChild(set(document.createElementNS(NS, tag), attributes));
  }

  const isClear = (colour) => colour === "transparent" || /, 0\)$/.test(colour);

  // Marks before a word are elements of no tree: they are made ones, to be read like words.
  function showMarks() {
    for (const element of document.querySelectorAll("body *")) {
      const before = getComputedStyle(element, "::before");
      const style = getComputedStyle(element);
      const isMarked = element.tagName === "SUMMARY" && style.display === "list-item";
      const text = isMarked ? "▸ " : /^"(.+)"$/.exec(before.content)?.[1];
      if (text) {
        const mark = document.createElement("span");
        mark.textContent = text;
        mark.style.color = before.color;
        element.prepend(mark);
      }
    }
    const sheet = document.createElement("style");
    sheet.textContent = "*::before { content: none !important } summary { list-style: none }";
    document.head.append(sheet);
  }

  function drawBox(element, style) {
    const box = element.getBoundingClientRect();
    const sides = ["Top", "Right", "Bottom", "Left"].map((side) => ({
      width: style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`]),
      colour: style[`border${side}Color`],
    }));
    const fill = isClear(style.backgroundColor) ? "none" : style.backgroundColor;
    const isFramed = sides.every((side) => side.width > 0);
    if (fill === "none" && !sides.some((side) => side.width > 0)) return;
    if (fill !== "none" || isFramed) {
      draw("rect", {
        x: box.x + 0.5, y: box.y + 0.5, width: box.width - 1, height: box.height - 1, fill,
        rx: parseFloat(style.borderTopLeftRadius) || 0,
        stroke: isFramed ? sides[3].colour : "none",
      });
    }
    const ends = [
      [box.left, box.top, box.right, box.top], [box.right, box.top, box.right, box.bottom],
      [box.left, box.bottom, box.right, box.bottom], [box.left, box.top, box.left, box.bottom],
    ];
    sides.forEach((side, index) => {
      if (!side.width || (isFramed && side.width <= 1)) return;
      const [x1, y1, x2, y2] = ends[index];
      const inset = (index === 0 ? 1 : index === 2 ? -1 : 0) * side.width / 2;
      draw("line", {
        x1, y1: y1 + inset, x2, y2: y2 + inset, stroke: side.colour, "stroke-width": side.width,
      });
    });
  }

  // The lines of a text: what stands at one height.
  function linesOf(node) {
    const lines = [];
    const range = document.createRange();
    for (let at = 0; at < node.length; at += 1) {
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const box = range.getClientRects()[0];
      if (!box || !box.width) continue;
      const last = lines.at(-1);
      if (last && Math.abs(last.top - box.top) < 2) {
        last.text += node.data[at];
        last.right = box.right;
      } else {
        lines.push({ text: node.data[at], left: box.left, right: box.right, top: box.top,
          height: box.height });
      }
    }
    return lines;
  }

  const measuring = document.createElement("canvas").getContext("2d");

  function drawText(node, style) {
    measuring.font = style.font;
    const font = measuring.measureText("x");
    const ascent = font.fontBoundingBoxAscent;
    const share = ascent / (ascent + font.fontBoundingBoxDescent);
    const link = node.parentElement.closest("a");
    for (const line of linesOf(node)) {
      if (!line.text.trim() || line.top > height) continue;
      const y = line.top + share * line.height;
      const isBold = Number(style.fontWeight) >= 550;
      const text = draw("text", {
        x: line.left, y, fill: style.color, "font-size": parseFloat(style.fontSize),
        textLength: line.right - line.left, lengthAdjust: "spacingAndGlyphs",
      });
      if (isBold) text.setAttribute("font-weight", "bold");
      if (style.fontFamily.includes("mono")) text.setAttribute("class", "code");
      text.textContent = line.text.replace(/\s/g, "\u00a0");
      if (link && getComputedStyle(link).textDecorationLine === "underline") {
        draw("line", { x1: line.left, y1: y + 3, x2: line.right, y2: y + 3,
          stroke: getComputedStyle(link).textDecorationColor });
      }
    }
  }

  // A chart is SVG already: its colours are written out, for the page's sheet stays behind.
  function drawChart(chart) {
    const box = chart.getBoundingClientRect();
    const copy = chart.cloneNode(true);
    const parts = [...chart.querySelectorAll("*")];
    [...copy.querySelectorAll("*")].forEach((part, index) => {
      const style = getComputedStyle(parts[index]);
      for (const name of ["fill", "stroke"]) {
        if (style[name] !== "none" || part.hasAttribute(name)) part.setAttribute(name, style[name]);
      }
      part.removeAttribute("class");
    });
    set(copy, { x: box.x, y: box.y, width: box.width, height: box.height });
    copy.removeAttribute("class");
    svg.append(copy);
  }

  function walk(element) {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (!element.checkVisibility({ visibilityProperty: true }) || box.top > height) return;
    if (element.tagName === "svg") return drawChart(element);
    if (box.right < 0) return;
    drawBox(element, style);
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE && child.data.trim()) drawText(child, style);
      if (child.nodeType === Node.ELEMENT_NODE) walk(child);
    }
  }

  showMarks();
  set(svg, { xmlns: NS, viewBox: `0 0 ${width} ${height}`, width, height });
  const sheet = document.createElementNS(NS, "style");
  sheet.textContent = "text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, "
    + "'DejaVu Sans', sans-serif } .code { font-family: ui-monospace, Menlo, Consolas, "
    + "'DejaVu Sans Mono', monospace }";
  svg.append(sheet);
  draw("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor });
  walk(document.body);
  draw("rect", { x: 0.5, y: 0.5, width: width - 1, height: height - 1, fill: "none",
    stroke: "#c5ccd3" });
  return new XMLSerializer().serializeToString(svg);
}
