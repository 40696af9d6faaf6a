// Saving: pictures and data are made here in the page and handed over as files, no network.

const PICTURE_WIDTH_PX = 1200;
const PICTURE_MARGIN_PX = 28;
const PICTURE_INNER_PX = PICTURE_WIDTH_PX - 2 * PICTURE_MARGIN_PX;
const PICTURE_HEAD_PX = 78; // with a title of one line
const TITLE_LINE_PX = 24;
const TITLE_CHARACTER_PX = 9.6;
const SOURCE_LINE_PX = 16;
const SOURCE_CHARACTER_PX = 6.8;
const PICTURE_FOOT_PX = 22;

/** Hand a file over to the reader. */
function offer(name, blob) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Return what stands below the title of a picture. */
const sourceOf = ({ topic, source }) => `${topic}. ${source}`;

/** Return the height (px) that a title and its source need above a picture. */
function pictureHead(words) {
  const more = (text, character_px) => (
    Math.ceil((text.length * character_px) / PICTURE_INNER_PX) - 1
  );
  return PICTURE_HEAD_PX + more(words.title, TITLE_CHARACTER_PX) * TITLE_LINE_PX
    + more(sourceOf(words), SOURCE_CHARACTER_PX) * SOURCE_LINE_PX;
}

/** Return a chart's option for a picture that stands alone: its title and its source above. */
function pictureOption(option, words, colours) {
  const shift = (part) => ({
    ...part,
    left: (typeof part.left === 'number' ? part.left : 0) + PICTURE_MARGIN_PX,
    top: (part.top ?? 0) + pictureHead(words),
  });
  const heading = {
    text: words.title,
    subtext: sourceOf(words),
    left: PICTURE_MARGIN_PX,
    top: PICTURE_MARGIN_PX - 6,
    padding: 0,
    textStyle: {
      color: colours.ink,
      fontSize: 17,
      lineHeight: TITLE_LINE_PX,
      width: PICTURE_INNER_PX,
      overflow: 'break',
    },
    subtextStyle: {
      color: colours.muted,
      fontSize: 12,
      lineHeight: SOURCE_LINE_PX,
      width: PICTURE_INNER_PX,
      overflow: 'break',
    },
  };
  return {
    ...option,
    backgroundColor: colours.paper,
    title: [heading, ...[option.title ?? []].flat().map(shift)],
    legend: [option.legend ?? []].flat().map(shift),
    grid: option.grid.map(shift),
  };
}

/** Draw a picture outside the page, hand the chart to `use`, and clear up. */
function withPicture(drawing, view, words, renderer, use) {
  const colours = currentColours();
  const [option, height_px] = drawing(view, PICTURE_INNER_PX, colours);
  const chart = echarts.init(document.createElement('div'), null, {
    renderer,
    ssr: renderer === 'svg',
    width: PICTURE_WIDTH_PX,
    height: height_px + pictureHead(words) + PICTURE_FOOT_PX,
    devicePixelRatio: 2,
  });
  chart.setOption(pictureOption(option, words, colours));
  const result = use(chart);
  chart.dispose();
  return result;
}

/** Return the chart as a PNG, at two pixels for each of the page. */
function savePng(name, drawing, view, words) {
  const canvas = withPicture(drawing, view, words, 'canvas', (chart) => chart.renderToCanvas({
    pixelRatio: 2,
  }));
  canvas.toBlob((blob) => offer(`${name}.png`, blob), 'image/png');
}

/** Return the chart as an SVG. */
function saveSvg(name, drawing, view, words) {
  const text = withPicture(drawing, view, words, 'svg', (chart) => chart.renderToSVGString());
  offer(`${name}.svg`, new Blob([text], { type: 'image/svg+xml' }));
}

/** The columns of a point's figure: where rounds scatter, there is a range and no interval. */
const FIGURE_COLUMNS = ['value', 'low_95', 'high_95', 'lowest_round', 'highest_round'];

/** Return the figure of a point in these columns. */
function figureColumns([, value, low, high, , isRange]) {
  return isRange ? [value, null, null, low, high] : [value, low, high, null, null];
}

/** Save rows of values as CSV (RFC 4180). */
function saveCsv(name, rows) {
  const text = rows.map((row) => row.map(csvField).join(',')).join('\r\n');
  offer(`${name}.csv`, new Blob([text, '\r\n'], { type: 'text/csv' }));
}

/** Return one field; a text that a spreadsheet would run as a formula is kept a text. */
function csvField(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
