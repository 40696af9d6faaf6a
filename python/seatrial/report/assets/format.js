// Figures in words, for what the script itself must say: positions on a heat map. All other
// texts come ready from stats/wording.py; these follow its rules.

const DURATIONS = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];
const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** Return a number with so many significant digits, without an exponent. */
function formatNumber(value, digits = 3) {
  return value.toLocaleString('en-US', { maximumSignificantDigits: digits });
}

/** Return a reading with three digits, zeros at its end too, as stats/wording.py writes it. */
function formatReading(value) {
  if (value === 0) return '0';
  const digits = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  return value.toLocaleString('en-US', digits);
}

/** Return a duration given in ns, such as "850 ns" or "2.13 ms". */
function formatDuration(value_ns, digits = 3, format = formatNumber) {
  const rounded_ns = Number(value_ns.toPrecision(digits));
  const [unit, scale] = DURATIONS.find(([, size]) => rounded_ns >= size) ?? DURATIONS.at(-1);
  return `${format(value_ns / scale, digits)} ${unit}`;
}

/** Return a size in binary units, such as "512 B" or "1.5 GiB". */
function formatSize(size_bytes) {
  let unit = 0;
  let amount = size_bytes;
  while (amount >= 1024 && unit < SIZES.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${formatNumber(amount)} ${SIZES[unit]}`;
}

/** Return a share of 1 in percent: one decimal below one percent, else whole percents. */
function formatShare(share) {
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return '< 0.1 %';
  return `${percent > 0 && percent < 0.95 ? percent.toFixed(1) : percent.toFixed(0)} %`;
}

/** Return a rate without its unit: "1,240", "74k" or "1.2M". */
function formatRate(per_s) {
  if (Number(per_s.toPrecision(3)) < 10_000) return formatReading(per_s);
  return per_s < 999_500 ? `${formatReading(per_s / 1e3)}k` : `${formatReading(per_s / 1e6)}M`;
}

/** Return a heading whose numbers stay on one line with their units (as report/markup.py). */
const unbroken = (text) => text.replaceAll(/(\d[kM]?|±) (?=[\d%µA-Za-z])/g, '$1\u00a0');

/** Return a count with thousands set apart. */
const formatCount = (count) => count.toLocaleString('en-US');
