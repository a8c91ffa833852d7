import { type FigureName, figures, type Measurement } from './figures.ts';

/** What a figure must keep to. `of` and `against` are lines of the scenario's table; `of` is Sluice unless said. */
export type Target =
  /** Without a bound it is told for comparison. */
  | { type: 'ratio'; figure: FigureName; of?: string; against: string; atMost?: number; atLeast?: number }
  | { type: 'difference'; figure: FigureName; against: string; atMost: number }
  | { type: 'absolute'; figure: FigureName; of?: string; atMost?: number; atLeast?: number }
  /** Between the largest and the smallest of all lines. */
  | { type: 'spread'; figure: FigureName; atMost: number };

/** The figures are written out with their units. */
export interface Verdict {
  readonly target: string;
  readonly measured: string;
  /** What it is compared with, and how much of it that is; empty for an absolute target. */
  readonly against: string;
  readonly compared: string;
  /** Null if there is no bound. */
  readonly met: boolean | null;
}

export function judge(target: Target, table: ReadonlyMap<string, Measurement>): Verdict {
  const { title, show } = figures[target.figure];
  const at = (label: string): number => table.get(label)?.[target.figure] ?? Number.NaN;
  switch (target.type) {
    case 'ratio': {
      const { of = 'sluice', against, atMost, atLeast } = target;
      const ratio = at(of) / at(against);
      const whose = of === 'sluice' ? title : `${of}: ${title}`;
      return {
        target: `${whose} ${boundText(atMost, atLeast)}× ${against}`,
        measured: show(at(of)),
        against: show(at(against)),
        compared: `× ${ratio.toFixed(2)}`,
        met:
          atMost === undefined && atLeast === undefined ? null : ratio <= (atMost ?? ratio) && ratio >= (atLeast ?? 0),
      };
    }
    case 'difference': {
      const difference = at('sluice') - at(target.against);
      return {
        target: `${title} ≤ ${target.against} + ${show(target.atMost)}`,
        measured: show(at('sluice')),
        against: show(at(target.against)),
        compared: `${difference < 0 ? '−' : '+'} ${show(Math.abs(difference))}`,
        met: difference <= target.atMost,
      };
    }
    case 'absolute': {
      const { of = 'sluice', atMost, atLeast } = target;
      const figure = at(of);
      const whose = of === 'sluice' ? title : `${of}: ${title}`;
      const bound = atMost !== undefined ? `≤ ${show(atMost)}` : `≥ ${show(atLeast ?? 0)}`;
      return {
        target: `${whose} ${bound}`,
        measured: show(figure),
        against: '',
        compared: '',
        met: figure <= (atMost ?? figure) && figure >= (atLeast ?? 0),
      };
    }
    case 'spread': {
      const all = [...table.keys()].map(at);
      const [largest, smallest] = [Math.max(...all), Math.min(...all)];
      return {
        target: `${title}: largest ≤ ${target.atMost.toFixed(2)} × smallest`,
        measured: show(largest),
        against: show(smallest),
        compared: `× ${(largest / smallest).toFixed(2)}`,
        met: largest <= target.atMost * smallest,
      };
    }
  }
}

function boundText(atMost: number | undefined, atLeast: number | undefined): string {
  if (atMost !== undefined) return `≤ ${atMost.toFixed(2)} `;
  return atLeast === undefined ? '' : `≥ ${atLeast.toFixed(2)} `;
}
