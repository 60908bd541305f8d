// The view Compare: what it compares, over what, and what it asks for.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import type {Band, Series} from '../../../daemon/web/src/base/api';
import {aggregated, bandAt, bandLine, bandOf} from '../../../daemon/web/src/views/compare/bands';
import {loadBands, loadSide} from '../../../daemon/web/src/views/compare/fetch';
import {compareState, pairOf} from '../../../daemon/web/src/views/compare/state';
import {tokensAt, tokensOf} from '../../../daemon/web/src/views/compare/tokens';
import {at, curve, FakeDaemon, head, points, run, series, signal} from './fakes';

const RUNS = [run('new'), run('old')];

function band(rule: string, more: Partial<Band> = {}): Band {
  return {
    rule,
    indicator: 'train.loss',
    aggregate: 'each',
    unit: 'UNIT_NONE',
    unit_id: '0',
    unit_name: '',
    by_tokens: false,
    points: [{position: 0, median: 3, spread: 0.5}, {position: 10, median: 2, spread: 0.5}],
    ...more
  };
}

test('two runs are compared, or a run and a rule\'s band', () => {
  const bands = [band('off'), band('off'), band('far')];
  const of = (search: string, runs = RUNS, known = bands) => pairOf(at(search), runs, known);
  assert.deepEqual(of(''), {a: 'new', b: 'old', rule: null, ruled: ['off', 'far']});
  assert.deepEqual(of('?a=old'), {a: 'old', b: 'new', rule: null, ruled: ['off', 'far']});
  assert.deepEqual(of('?a=old&band=far'), {a: 'old', b: null, rule: 'far', ruled: ['off', 'far']});
  assert.equal(of('?band=gone')?.rule, null);
  assert.equal(of('', [run('one')])?.rule, 'off');
  assert.equal(of('', [run('one')], []), null);
  assert.equal(of('', [], bands), null);
});

const listed = (...all: Series[]) => {
  const map = new Map<string, Series[]>();
  for (const one of all) map.set(one.indicator, [...map.get(one.indicator) ?? [], one]);
  return map;
};

test('indicators are those of either run, layers those of both', () => {
  const pair = pairOf(at(''), RUNS, [])!;
  const [a, b] = [
    listed(series('train.loss'), head('x', 1, 0), head('x', 2, 0)),
    listed(head('x', 2, 0), head('x', 3, 0), series('mine'))
  ];
  const state = compareState(at(''), pair, [a, b], []);
  assert.deepEqual(
      [state.spec, state.indicators, state.tokens],
      [{indicator: 'train.loss', layer: undefined}, ['mine', 'train.loss', 'x'], false]);
  const layered = compareState(at('?indicator=x&layer=3&by=tokens'), pair, [a, b], []);
  assert.deepEqual(
      [layered.spec, layered.layers, layered.tokens], [{indicator: 'x', layer: 2}, [2], true]);
  const apart = compareState(at('?indicator=x'), pair, [listed(head('x', 4, 0)), b], []);
  assert.deepEqual(apart.layers, [2, 3, 4]);
});

test('with a band, indicators, layers and axis are the band\'s', () => {
  const bands = [band('off', {indicator: 'x', layer: 2, by_tokens: true}), band('far')];
  const pair = pairOf(at('?band=off'), RUNS, bands)!;
  const state = compareState(at('?band=off&by='), pair, [listed(series('train.loss'))], bands);
  assert.deepEqual(
      [state.spec, state.indicators, state.tokens], [{indicator: 'x', layer: 2}, ['x'], true]);
});

test('tokens are seen in proportion between the steps where they are known', () => {
  const tokens = tokensOf(curve([1, 11], [10, 20], [100, 50]));
  assert.deepEqual(tokens.seen, [1000, 1500]);
  assert.deepEqual(
      [0, 1, 10, 15, 20, 99].map((step) => tokensAt(tokens, step)),
      [0, 100, 1000, 1250, 1500, 1500]);
  assert(Number.isNaN(tokensAt(null, 5)));
});

test('a side loads its curves, and its tokens where they are the axis', async () => {
  const daemon = new FakeDaemon({
    'api/v1/series': () => ({series: [series('train.loss')], truncated: false}),
    'api/v1/points': (query) => ({
      results: query.get('indicator') === 'train.loss' ? [points(series('train.loss'), [[1, 3]])] :
                                                         []
    })
  });
  const pair = pairOf(at(''), RUNS, [])!;
  const steps = compareState(at(''), pair, [listed(series('train.loss'))], []);
  const side = await loadSide(run('new'), steps, [], 400, signal);
  assert.deepEqual([side.curves[0]?.mean, side.tokens], [[3], null]);
  assert.equal(daemon.asked.length, 2);
  assert.match(daemon.asked[1] ?? '', /buckets_max=400/);
  const lost = await loadSide(run('new'), {...steps, tokens: true}, [], 4000, signal);
  assert.equal(lost.tokens, null);
  assert(daemon.asked.some((one) => one.includes('indicator=train.tokens_total&buckets_max=800')));
});

test(
    'bands are loaded for the layer shown; a run\'s values as the rule aggregates them',
    async () => {
      const bands = [
        band('off', {indicator: 'x', layer: 2, aggregate: 'max'}),
        band('off', {indicator: 'x', layer: 3, aggregate: 'max'}),
        band('far', {indicator: 'x', layer: 2})
      ];
      new FakeDaemon({
        'api/v1/bands': () => ({bands}),
        'api/v1/series': () => ({series: [head('x', 2, 0), head('x', 2, 1)]}),
        'api/v1/points': () => ({
          results:
              [points(head('x', 2, 0), [[1, 3], [2, 1]]), points(head('x', 2, 1), [[1, 2], [2, 4]])]
        })
      });
      const pair = pairOf(at('?band=off'), RUNS, bands)!;
      const state = compareState(at('?layer=2'), pair, [], bands);
      const own = await loadBands(state, signal);
      assert.deepEqual(own, [bands[0]]);
      const side = await loadSide(run('new'), state, own, 400, signal);
      assert.deepEqual(
          [side.curves.length, side.curves[0]?.label, side.curves[0]?.mean],
          [1, 'max of 2', [3, 4]]);
      assert.deepEqual(await loadBands({...state, pair: {...pair, rule: null}}, signal), []);
    });

test('a rule looks at the mean, an end or a low tenth of the units', () => {
  const curves = [5, 1, 3].map((value) => curve([0], [9], [value]));
  const of = (how: Band['aggregate']) => aggregated(curves, how).map((one) => one.mean[0]);
  assert.deepEqual(
      [of('each'), of('mean'), of('min'), of('max'), of('p10')], [[5, 1, 3], [3], [1], [5], [1]]);
});

test('a band keeps its value outside of its points and is linear between them', () => {
  const limited = band('off', {
    points: [
      {position: 10, median: 3, spread: 0.5, low: 1}, {position: 20, median: 2, spread: 0.5, low: 0}
    ]
  });
  assert.deepEqual(bandAt(band('off'), 5), {median: 2.5, low: 2, high: 3});
  assert.deepEqual(bandAt(limited, 15), {median: 2.5, low: 0.5, high: 2.5});
  assert.deepEqual([bandAt(limited, 0).median, bandAt(limited, 99).median], [3, 2]);
  const line = bandLine(limited, 0, 50, '#000000');
  assert.deepEqual([line.x, line.y, line.min], [[0, 10, 20, 50], [3, 3, 2, 2], [1, 1, 0, 0]]);
});

test('a curve is compared with the band of its own series, or of the aggregate', () => {
  const one = {...curve([0], [0], [1]), series: head('x', 2, 1)};
  const own = band('off', {unit: 'UNIT_HEAD', unit_id: '1'});
  assert.equal(bandOf([band('off'), own], one), own);
  assert.equal(bandOf([band('off', {unit: 'UNIT_HEAD', unit_id: '2'})], one), undefined);
  const all = band('off', {aggregate: 'mean'});
  assert.equal(bandOf([all], one), all);
});
