// Only the parts that report/assets uses. Add a part here when a chart needs it, then run
// `npm run build`; the page may not carry what it does not draw.
import { init, use } from 'echarts/core';
import { CustomChart, LineChart } from 'echarts/charts';
import {
  GridComponent,
  LegendPlainComponent,
  TitleComponent,
  TooltipComponent,
} from 'echarts/components';
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers';

use([
  CanvasRenderer,
  CustomChart,
  GridComponent,
  LegendPlainComponent,
  LineChart,
  SVGRenderer,
  TitleComponent,
  TooltipComponent,
]);

export { init };
