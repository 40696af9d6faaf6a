// What all charts share: fonts, where panels stand, axes, the tooltip, the legend.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const LEGEND_ROW_PX = 30; // text and the gap below it
const LABEL_CHARACTER_PX = 6.8;

/** Return the position of a value on an axis, which is its logarithm on a logarithmic one. */
const position = (axis, value) => (axis.scale === 'log' ? Math.log10(value) : value);

/** Return the common part of every chart's option. */
function baseOption(colours) {
  return {
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: FONT, fontSize: 12, color: colours.ink },
  };
}

/** Return the option of an axis: ticks and labels where the report put them, nowhere else. */
function axisOption(axis, colours, { gridIndex, horizontal, nameShown, length_px = Infinity }) {
  const ticks = fittingTicks(axis.ticks, length_px);
  const labels = new Map(ticks.map(([value, label]) => [position(axis, value), label]));
  const customValues = [...labels.keys()];
  return {
    type: 'value',
    gridIndex,
    min: position(axis, axis.low),
    max: position(axis, axis.high),
    name: nameShown ? axis.name : '',
    nameLocation: 'middle',
    nameGap: 30,
    nameTextStyle: { color: colours.muted },
    axisLine: { show: horizontal, onZero: false, lineStyle: { color: colours.muted } },
    axisTick: { show: horizontal, customValues, lineStyle: { color: colours.muted } },
    axisLabel: {
      color: colours.muted,
      customValues,
      formatter: (value) => labels.get(value) ?? '',
      hideOverlap: true,
    },
    splitLine: { show: !horizontal, lineStyle: { color: colours.rule } },
    axisPointer: { label: { show: false } },
  };
}

/** Return every tick, or every second, third ... so that the labels fit next to each other. */
function fittingTicks(ticks, length_px) {
  const longest = Math.max(0, ...ticks.map(([, label]) => label.length));
  const stride = Math.ceil((ticks.length * (longest * LABEL_CHARACTER_PX + 10)) / length_px);
  return ticks.filter((_, index) => index % Math.max(stride, 1) === 0);
}

/** Return how many rows a legend of these names needs at a width. */
function legendRows(names, width_px) {
  let rows = 1;
  let used_px = 0;
  for (const name of names) {
    const item_px = 54 + name.length * LABEL_CHARACTER_PX;
    if (used_px + item_px > width_px && used_px > 0) {
      rows += 1;
      used_px = 0;
    }
    used_px += item_px;
  }
  return rows;
}

/** Return the legend's option; `entries` are names, or {name, icon}. */
function legendOption(entries, colours, top_px) {
  return {
    type: 'plain',
    data: entries,
    left: 0,
    top: top_px,
    padding: [4, 0, 0, 0], // else the tops of letters are cut off
    itemGap: 18,
    itemWidth: 30,
    itemHeight: 9,
    textStyle: { color: colours.ink },
    inactiveColor: colours.rule,
  };
}

/** Return a tooltip whose content is made of elements: no text of a user becomes HTML. */
function tooltipOption(trigger, content, colours) {
  return {
    trigger,
    confine: true,
    transitionDuration: 0,
    className: 'tip',
    padding: [8, 12],
    backgroundColor: colours.paper,
    borderColor: colours.muted,
    borderWidth: 1,
    textStyle: { color: colours.ink, fontFamily: FONT, fontSize: 13 },
    extraCssText: 'box-shadow: none; border-radius: 4px',
    formatter: (parameters) => content([parameters].flat()),
  };
}

/** Return a tooltip's content: a heading, and rows of a name (with its colour) and a text. */
function tipContent(heading, rows) {
  const box = document.createElement('div');
  box.append(textElement('strong', heading));
  const list = document.createElement('dl');
  for (const { name, text, color } of rows) {
    const term = textElement('dt', name);
    if (color) {
      const dot = document.createElement('span');
      dot.className = 'dot';
      dot.style.backgroundColor = color;
      term.prepend(dot);
    }
    list.append(term, textElement('dd', text));
  }
  box.append(list);
  return box;
}

/** Return an element that holds a text. */
function textElement(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

/** Return a series that is drawn by `shapes(api)`, once, on the axes of this index. */
function drawnSeries(shapes, { axis = 0, name = '', z = 1, color = undefined } = {}) {
  return {
    type: 'custom',
    name,
    xAxisIndex: axis,
    yAxisIndex: axis,
    clip: true,
    silent: true,
    z,
    itemStyle: { color },
    tooltip: { show: false },
    data: [[0, 0]],
    encode: { x: -1, y: -1 },
    renderItem: (_, api) => ({ type: 'group', children: shapes(api) }),
  };
}
