// What stands in a panel beside its lines: circles around what needs a look, cells that are
// absent, straight guides and bands.

const RING_PX = 8.5;
const RING_LABEL_PX = 15; // from a circle's centre to its number
const ABSENT_STEP_PX = 2 * RING_PX + 1;
const ABSENT_CROSS_PX = 3.5;
const RING_NAME = 'gap';
const RING_ICON = 'path://M6,0A6,6,0,1,1,6,12A6,6,0,1,1,6,0Z'
  + 'M6,1.6A4.4,4.4,0,1,0,6,10.4A4.4,4.4,0,1,0,6,1.6Z';

/** Return the legend's entry of the circles. */
const ringLegend = (colours) => ({
  name: RING_NAME, icon: RING_ICON, itemStyle: { color: colours.alarm },
});

/** Return the series of all that a panel has beside its lines. */
function overlaySeries(panel, axis, colours) {
  const { rings = [], absent = [], guides = [] } = panel;
  const found = [];
  if (guides.length) {
    found.push(drawnSeries((api) => guideShapes(panel, api, colours), { axis, z: 1 }));
  }
  if (absent.length) {
    const shapes = (api) => absentShapes(panel, api, colours);
    found.push({ ...drawnSeries(shapes, { axis, z: 4 }), clip: false });
  }
  if (rings.length) {
    const shapes = (api) => ringShapes(panel, api, colours);
    const options = { axis, name: RING_NAME, color: colours.alarm, z: 5 };
    found.push({ ...drawnSeries(shapes, options), clip: false });
  }
  return found;
}

/** Return where an absent cell is marked: at the bottom, above those of the same place. */
function absentPlace(panel, at, name, api) {
  const same = panel.absent.filter(([x]) => x === at);
  const index = Math.max(same.findIndex(([, known]) => known === name), 0);
  const [x, bottom] = api.coord([place(panel.x, at), place(panel.y, panel.y.low)]);
  return [x, bottom - RING_PX - 2 - index * ABSENT_STEP_PX];
}

/** Return a cross for each absent cell, and the word beside the first of each row. */
function absentShapes(panel, api, colours) {
  const crosses = panel.absent.flatMap(([at, name, style]) => {
    const [x, y] = absentPlace(panel, at, name, api);
    const stroke = lineStyle(style, colours).color;
    return [1, -1].map((slope) => ({
      type: 'line',
      shape: {
        x1: x - ABSENT_CROSS_PX, x2: x + ABSENT_CROSS_PX,
        y1: y - slope * ABSENT_CROSS_PX, y2: y + slope * ABSENT_CROSS_PX,
      },
      style: { stroke, lineWidth: 1.8 },
    }));
  });
  const first = panel.absent.reduce((a, b) => (b[0] < a[0] ? b : a));
  const [x, y] = absentPlace(panel, first[0], '', api);
  const word = {
    type: 'text',
    x: x - RING_PX - 6,
    y,
    style: {
      text: 'absent', align: 'right', verticalAlign: 'middle',
      fill: colours.muted, fontSize: 11, fontFamily: FONT,
    },
  };
  return [...crosses, word];
}

/** Return a circle around each point that needs a look, with its number where there is room. */
function ringShapes(panel, api, colours) {
  const rings = panel.rings.map(([at, value, label, , name]) => {
    const centre = value === null
      ? absentPlace({ absent: [], ...panel }, at, name, api)
      : api.coord([place(panel.x, at), place(panel.y, value)]);
    return { centre, label };
  });
  const circles = rings.map(({ centre: [cx, cy] }) => ({
    type: 'circle',
    shape: { cx, cy, r: RING_PX },
    style: { fill: 'transparent', stroke: colours.alarm, lineWidth: 1.8 },
  }));
  return [...circles, ...ringLabels(rings, colours)];
}

/** Return the numbers, each at the first place beside a circle of its own that is free. */
function ringLabels(rings, colours) {
  const far = RING_LABEL_PX * 0.78;
  const sides = [[far, -far], [-far, -far], [far, far], [-far, far], [0, -RING_LABEL_PX - 2]];
  const taken = rings.map(({ centre }) => centre);
  const told = [];
  for (const { centre: [x, y], label } of rings) {
    // Neighbours of one gap share a number, so that it is not repeated at every point.
    const told_near = told.some((other) => other.label === label
      && Math.hypot(other.x - x, other.y - y) < 4 * RING_PX);
    const free = sides
      .map(([dx, dy]) => [x + dx, y + dy])
      .find(([lx, ly]) => taken.every(([tx, ty]) => Math.hypot(tx - lx, ty - ly) > RING_PX + 2));
    if (!told_near && free) {
      taken.push(free);
      told.push({ label, x: free[0], y: free[1] });
    }
  }
  return told.map(({ label, x, y }) => ({
    type: 'text',
    x,
    y,
    style: {
      text: label, align: 'center', verticalAlign: 'middle',
      fill: colours.alarm, stroke: colours.paper, lineWidth: 3,
      fontSize: 11.5, fontWeight: 700, fontFamily: FONT,
    },
  }));
}

/** Return the tooltip's rows on the cells that are absent at a place. */
function absentRows({ absent = [] }, at, colours) {
  return absent.filter(([x]) => x === at).map(([, name, style, text]) => ({
    name, text, color: lineStyle(style, colours).color,
  }));
}

/** Return the tooltip's rows on what is circled at a place, each gap once. */
function ringRows({ rings = [] }, at, colours) {
  const texts = new Map(rings.filter(([x]) => x === at).map(([, , label, text]) => [label, text]));
  return [...texts].map(([label, text]) => ({
    name: `${RING_NAME} ${label}`, text, color: colours.alarm,
  }));
}

/** Return the lines and bands across a panel, each with its label. */
function guideShapes(panel, api, colours) {
  const ends = (axis) => [place(axis, axis.low), place(axis, axis.high)];
  const [x_low, x_high] = ends(panel.x);
  const [y_low, y_high] = ends(panel.y);
  const [left, bottom] = api.coord([x_low, y_low]);
  const [right, top] = api.coord([x_high, y_high]);
  return panel.guides.flatMap((guide) => {
    const colour = { limit: colours.alarm, answer: colours.accent }[guide.tone] ?? colours.muted;
    const upright = guide.axis === 'x';
    const axis = upright ? panel.x : panel.y;
    const at = (value) => {
      const inside = place(axis, Math.min(Math.max(value, axis.low), axis.high));
      return upright ? api.coord([inside, y_low])[0] : api.coord([x_low, inside])[1];
    };
    const [from, to] = [at(guide.low), at(guide.high ?? guide.low)];
    const box = upright
      ? { x: from, y: top, width: to - from, height: bottom - top }
      : { x: left, y: to, width: right - left, height: from - to };
    const shape = guide.high === undefined
      ? straight(upright, from, { left, right, top, bottom }, colour)
      : { type: 'rect', shape: box, style: { fill: colour, opacity: 0.13 } };
    return guide.label ? [shape, guideLabel(guide, box, colour, colours)] : [shape];
  });
}

/** Return a straight line from side to side. */
function straight(upright, at, { left, right, top, bottom }, colour) {
  const shape = upright
    ? { x1: at, x2: at, y1: top, y2: bottom } : { x1: left, x2: right, y1: at, y2: at };
  return { type: 'line', shape, style: { stroke: colour, lineWidth: 1.4, lineDash: [6, 4] } };
}

/** Return a guide's label: above a level line at its left end, on top of an upright one. */
function guideLabel({ axis, label }, box, colour, colours) {
  const upright = axis === 'x';
  return {
    type: 'text',
    x: upright ? box.x + Math.max(box.width, 0) / 2 : box.x + 6,
    y: upright ? box.y + 4 : box.y - 3,
    style: {
      text: label, align: upright ? 'center' : 'left',
      verticalAlign: upright ? 'top' : 'bottom',
      fill: colour, stroke: colours.paper, lineWidth: 3, fontSize: 11.5, fontFamily: FONT,
    },
  };
}
