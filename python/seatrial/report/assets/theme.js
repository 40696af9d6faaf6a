// Colours and line styles. The colours are the page's own (custom properties of page.css), so a
// chart, a table and the text around them always agree; every colour has a dash and a marker of
// its own next to it, for eyes and printers that do not tell colours apart.

const DASHES = ['solid', [7, 4], [2, 3], [10, 4, 2, 4], [4, 2], [12, 4]];
const MARKERS = ['circle', 'rect', 'triangle', 'diamond', 'emptyCircle', 'emptyRect'];
const COLOURS = 7;

// Markers that ECharts has no name for, and hollow ones that are hollow in the dark too.
const MARKER_PATHS = {
  cross: 'path://M0,1.4L1.4,0L5,3.6L8.6,0L10,1.4L6.4,5L10,8.6L8.6,10L5,6.4L1.4,10L0,8.6L3.6,5Z',
  emptyCircle: 'path://M6,0A6,6,0,1,1,6,12A6,6,0,1,1,6,0ZM6,2A4,4,0,1,0,6,10A4,4,0,1,0,6,2Z',
  emptyDiamond: 'path://M6,0L12,6L6,12L0,6ZM6,2.8L2.8,6L6,9.2L9.2,6Z',
  emptyRect: 'path://M0,0H12V12H0ZM2,2V10H10V2Z',
  triangleDown: 'path://M0,0H12L6,12Z',
  emptyTriangle: 'path://M6,0L12,12H0ZM6,4.4L3.2,10H8.8Z',
};

// The answers of a comparison: colour and marker each, higher and lower differ in shape.
const ANSWER_STYLES = {
  higher: [2, 'triangle'],
  lower: [3, 'triangleDown'],
  undecided: [4, 'emptyDiamond'],
  same: [6, 'emptyCircle'],
  p95: [1, 'rect'], // of queries, which have it in place of p90
};

// Viridis (van der Walt and Smith, 2015), every eighth of it; between them it is linear enough.
const VIRIDIS = ['#440154', '#472d7b', '#3b528b', '#2c728e', '#21918c', '#28ae80', '#5ec962',
  '#addc30', '#fde725'];

const darkPreferred = window.matchMedia('(prefers-color-scheme: dark)');

/** Return 'light' or 'dark': what the reader chose, else what the system prefers. */
function themeName() {
  return document.documentElement.dataset.theme || (darkPreferred.matches ? 'dark' : 'light');
}

/** Start the switch of light and dark; `redraw` draws the charts in the colours chosen. */
function startTheme(redraw) {
  const button = document.getElementById('theme');
  const show = () => {
    const other = themeName() === 'dark' ? 'light' : 'dark';
    button.textContent = `${other[0].toUpperCase()}${other.slice(1)} page`;
    button.dataset.next = other;
  };
  button.hidden = false;
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = button.dataset.next;
    show();
    redraw();
  });
  darkPreferred.addEventListener('change', () => {
    show();
    redraw();
  });
  show();
}

/** Return the page's colours as they are now. */
function currentColours() {
  const probe = document.createElement('span');
  document.body.append(probe);
  const named = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color; // which of the two themes' colours it is, as rgb()
  };
  const colours = {
    accent: named('accent'),
    alarm: named('alarm'),
    caution: named('caution'),
    ink: named('ink'),
    lines: Array.from({ length: COLOURS }, (_, index) => named(`line-${index}`)),
    muted: named('muted'),
    paper: named('paper'),
    rule: named('rule'),
    // The most requests stand out most: dark on light paper, bright on dark paper.
    heat: themeName() === 'dark' ? VIRIDIS : [...VIRIDIS].reverse(),
  };
  probe.remove();
  return colours;
}

/** Return colour, dash and marker of a line; after the last it begins again, dashes shifted. */
function lineStyle(index, colours) {
  const lap = Math.floor(index / COLOURS);
  return {
    color: colours.lines[index % COLOURS],
    dash: DASHES[(index + lap) % DASHES.length],
    marker: MARKERS[(index + lap) % MARKERS.length],
  };
}

/** Return the style of a percentile or of an answer, the same in every chart. */
function namedStyle(name, colours) {
  const [style, marker] = ANSWER_STYLES[name] ?? [];
  if (marker === undefined) return lineStyle(PERCENTILES.indexOf(name), colours);
  return { ...lineStyle(style, colours), marker };
}

/** Return the colour at a share 0..1 of a list of colours. */
function colourAt(colours, share) {
  const position = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const index = Math.min(Math.floor(position), colours.length - 2);
  const channel = (colour, at) => parseInt(colour.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => {
    const from = channel(colours[index], at);
    return Math.round(from + (channel(colours[index + 1], at) - from) * (position - index));
  });
  return `rgb(${mixed.join(',')})`;
}
