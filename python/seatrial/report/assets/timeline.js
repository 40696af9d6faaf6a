// A sample over its time: panels of readings on one axis of time, checkpoints, stalls and dips
// shaded behind all of them, what happened to an array as upright lines.

const TIMELINE_PANEL_PX = 118;
const TIMELINE_TOP_PX = 46; // title and legend
const TIMELINE_FOOT_PX = 36;
const TIMELINE_NAMED_FOOT_PX = 54; // with the name of the axis
const TIMELINE_MARKS_PX = 18; // above the first row, for what is shaded
const TIMELINE_LEFT_PX = 62;
const TIMELINE_RIGHT_PX = 18;
const TIMELINE_TWO_COLUMNS_PX = 760;
const TIMELINE_MARK_LABEL_PX = 74;
const TIMELINE_TONES = { checkpoint: 'muted', stall: 'alarm', dip: 'caution', event: 'ink' };
const TIMELINE_OPACITIES = { checkpoint: 0.14, stall: 0.24, dip: 0.18, event: 0.75 };
const TIMELINE_LINE_PX = { event: 1 };

/** Return [option, height] of a view of readings at a width. */
function timelineOption({ timeline }, width_px, colours) {
  const { panels } = timeline;
  const columns = width_px >= TIMELINE_TWO_COLUMNS_PX && panels.length > 1 ? 2 : 1;
  const rows = Math.ceil(panels.length / columns);
  const row_px = TIMELINE_TOP_PX + TIMELINE_PANEL_PX + TIMELINE_FOOT_PX;
  const option = {
    ...baseOption(colours),
    title: [], legend: [], grid: [], xAxis: [], yAxis: [], series: [],
    axisPointer: { link: [{ xAxisIndex: 'all' }], lineStyle: { color: colours.muted } },
    tooltip: tooltipOption('axis', (points) => timelineTip(timeline, points, colours), colours),
  };
  panels.forEach((panel, index) => {
    const column = Math.floor(index / rows);
    const row = index % rows;
    addTimelinePanel(option, timeline, index, colours, {
      left_px: (column * width_px) / columns,
      top_px: row * row_px + TIMELINE_MARKS_PX,
      width_px: width_px / columns,
      named: row === rows - 1 || index === panels.length - 1,
      marked: row === 0,
    });
  });
  return [option, rows * row_px + TIMELINE_MARKS_PX + TIMELINE_NAMED_FOOT_PX - TIMELINE_FOOT_PX];
}

/** Add one panel: its title, its legend, its axes, what is shaded, its readings. */
function addTimelinePanel(option, timeline, index, colours, box) {
  const panel = timeline.panels[index];
  const length_px = box.width_px - TIMELINE_LEFT_PX - TIMELINE_RIGHT_PX;
  option.title.push({
    text: panel.title,
    left: box.left_px,
    top: box.top_px,
    padding: 0,
    textStyle: { color: colours.ink, fontSize: 13, fontWeight: 600 },
  });
  if (panel.columns.length > 1) {
    option.legend.push({
      ...legendOption(panel.columns.map(([name]) => name), colours, box.top_px + 18),
      left: box.left_px,
      itemGap: 12,
      itemWidth: 16,
      ...(panel.stacked ? { icon: 'rect' } : {}),
    });
  }
  option.grid.push({
    left: box.left_px + TIMELINE_LEFT_PX,
    top: box.top_px + TIMELINE_TOP_PX,
    width: length_px,
    height: TIMELINE_PANEL_PX,
  });
  option.xAxis.push({
    ...axisOption(timeline.x, colours, {
      gridIndex: index, horizontal: true, nameShown: box.named, length_px,
    }),
    triggerTooltip: true,
  });
  option.yAxis.push(axisOption(panel.y, colours, {
    gridIndex: index, horizontal: false, nameShown: false,
  }));
  const shapes = (api) => timelineMarks(timeline, panel, api, colours, box.marked);
  option.series.push({ ...drawnSeries(shapes, { axis: index, z: 0 }), clip: false });
  panel.columns.forEach((column) => {
    option.series.push(timelineSeries(timeline, panel, column, index, colours));
  });
}

/** Return one reading as a line, or as a layer of a stack. */
function timelineSeries(timeline, panel, [name, style, values], index, colours) {
  const { color, dash } = lineStyle(style, colours);
  const layer = panel.stacked
    ? { stack: `panel-${index}`, areaStyle: { color, opacity: 0.55 }, lineStyle: { width: 0 } }
    : { lineStyle: { color, type: dash, width: 1.8 } };
  const alone = values.filter((value) => value !== null).length === 1;
  return {
    type: 'line',
    name,
    xAxisIndex: index,
    yAxisIndex: index,
    z: 3,
    showSymbol: alone,
    symbol: 'circle',
    symbolSize: alone ? 6 : 4,
    itemStyle: { color },
    emphasis: { disabled: true },
    data: values.map((value, step) => {
      const middle_s = Math.min((step + 0.5) * timeline.step_s, timeline.x.high);
      const drawn = value === null || (panel.y.scale === 'log' && value <= 0) ? null : value;
      return {
        value: [middle_s, drawn === null ? null : position(panel.y, drawn)], reading: value,
      };
    }),
    ...layer,
  };
}

/** Return what is shaded behind a panel; above the first of a column it is named. */
function timelineMarks(timeline, panel, api, colours, named) {
  const at = (value) => Math.min(Math.max(value, 0), timeline.x.high);
  const [right_px] = api.coord([timeline.x.high, position(panel.y, panel.y.high)]);
  const labels = named ? timelineLabels(timeline, api, panel) : new Map();
  const shown = timeline.marks.filter(([from_s]) => from_s <= timeline.x.high);
  return shown.flatMap(([from_s, to_s, sort, text]) => {
    const [left, bottom] = api.coord([at(from_s), position(panel.y, panel.y.low)]);
    const [right, top] = api.coord([at(to_s), position(panel.y, panel.y.high)]);
    const fill = colours[TIMELINE_TONES[sort]];
    const shade = {
      type: 'rect',
      shape: {
        x: left,
        y: top,
        width: TIMELINE_LINE_PX[sort] ?? Math.max(right - left, 2),
        height: bottom - top,
      },
      style: { fill, opacity: TIMELINE_OPACITIES[sort] },
    };
    const label = labels.get(text);
    if (!label) return [shade];
    // What happens near the end is labelled to the left of its line, where there is room.
    const align = right_px - left < TIMELINE_MARK_LABEL_PX ? 'right' : 'left';
    return [shade, {
      type: 'text',
      x: left,
      y: top - 3,
      style: { text: label, fill, align, verticalAlign: 'bottom', fontSize: 11, fontFamily: FONT },
    }];
  });
}

/** Return what stands above the marks, by their texts: events first, others where there is room. */
function timelineLabels(timeline, api, panel) {
  const labels = new Map();
  const taken = [];
  const shown = timeline.marks.filter(([from_s]) => from_s <= timeline.x.high);
  const rank = ([, , sort]) => Number(sort !== 'event');
  for (const [from_s, , sort, text] of [...shown].sort((a, b) => rank(a) - rank(b))) {
    const [x] = api.coord([Math.max(from_s, 0), position(panel.y, panel.y.high)]);
    const label = timelineLabel(sort, text);
    if (label && taken.every((other) => Math.abs(other - x) >= TIMELINE_MARK_LABEL_PX)) {
      taken.push(x);
      labels.set(text, label);
    }
  }
  return labels;
}

/** Return what stands above a mark: a dip is explained below the chart, and has nothing there. */
function timelineLabel(sort, text) {
  if (sort === 'event') return text.split(' at ')[0];
  if (sort === 'stall') return text.split(' from ')[0].replace(' of ', ' ');
  return sort === 'dip' ? '' : sort;
}

/** Return the tooltip of a moment: every reading that is known, panel by panel. */
function timelineTip(timeline, parameters, colours) {
  const lines = parameters.filter(({ seriesType }) => seriesType === 'line');
  if (lines.length === 0) return '';
  const step = lines[0].dataIndex;
  const from_s = step * timeline.step_s;
  const to_s = from_s + timeline.step_s;
  const rows = timeline.panels.flatMap((panel) => panel.columns
    .filter(([, , values]) => values[step] !== null && values[step] !== undefined)
    .map(([name, style, values]) => ({
      name: panel.columns.length > 1 ? name : panel.title.toLowerCase().replace(/ \(.*/, ''),
      text: timelineReading(panel.y.unit, values[step]),
      color: lineStyle(style, colours).color,
    })));
  const marks = timeline.marks.filter(([start_s, end_s]) => start_s < to_s && end_s > from_s)
    .map(([, , sort, text]) => ({ name: '', text, color: colours[TIMELINE_TONES[sort]] }));
  return tipContent(
    `${formatNumber(from_s, 4)} to ${formatNumber(to_s, 4)} s`, [...marks, ...rows],
  );
}

/** Return one reading in words, as report/sections/timelines.py says it. */
function timelineReading(unit, value) {
  if (value === null || value === undefined) return '–';
  if (unit === 'share') return formatShare(value);
  if (unit === 'ns') return formatDuration(value, 3, formatReading);
  if (unit === 'B/s') return byteRate(value);
  return formatRate(value);
}

/** Return bytes per second in words, as format_rate_bytes says it. */
function byteRate(value) {
  const rounded = Number(value.toPrecision(3));
  if (rounded === 0 || rounded >= 1e6) return `${formatReading(value / 1e6)} MB/s`;
  return rounded < 1e3 ? `${formatReading(value)} B/s` : `${formatReading(value / 1e3)} kB/s`;
}

/** Return the view as rows of a table, the first of them its heading. */
function timelineTable({ timeline }) {
  const rows = timeline.panels.flatMap((panel) => panel.columns.flatMap(
    ([name, , values]) => values.map((value, step) => [
      panel.title, name, Number((step * timeline.step_s).toFixed(4)), panel.y.unit, value,
    ]),
  ));
  return [['panel', 'reading', 'from_s', 'unit', 'value'], ...rows];
}

/** Keep a timeline's table in step with the round that its chart shows. */
function followTimeline(figure) {
  const table = document.getElementById(figure.data.table);
  figure.element.addEventListener('view-chosen', ({ detail: { label, timeline } }) => {
    table.querySelector('.of').textContent = label;
    table.querySelector('.marks').replaceChildren(...timeline.marks.map(
      ([, , , text]) => textElement('li', text),
    ));
    table.querySelector('tbody').replaceChildren(...timelineStepRows(timeline));
  });
}

/** Return the rows of a timeline's table, as report/sections/timelines.py writes them. */
function timelineStepRows(timeline) {
  const columns = timeline.panels.flatMap((panel) => panel.columns.map(
    ([, , values]) => [panel.y.unit, values],
  ));
  const steps = Math.max(...columns.map(([, values]) => values.length));
  return Array.from({ length: steps }, (_, step) => {
    const row = document.createElement('tr');
    const readings = columns.map(([unit, values]) => timelineReading(unit, values[step]));
    const from_s = step * timeline.step_s;
    const from = from_s < 1000 ? formatNumber(from_s) : formatCount(Math.round(from_s));
    row.append(...[from, ...readings].map(
      (text) => textElement('td', text),
    ));
    return row;
  });
}
