import type { Route } from '../http/router.ts';
import type { Api, ApiServices } from './api.ts';
import { DatabendApi } from './databend/index.ts';
import { NativeApi } from './native/index.ts';
import { Site } from './site.ts';

/** Sluice's own dialect: it gets the requests that no other claims. */
const native = NativeApi;
/** The other dialects. To add one, add its folder and a member here. */
const others = [DatabendApi] as const;

/** As --dialect takes them. */
export const dialectNames: readonly string[] = [native, ...others].map(({ dialect }) => dialect);

/**
 * All that the server serves.
 * @param dialect of all requests; `auto`: each request is in the dialect that claims it
 * @param operations routes of no dialect
 */
export function openSite(services: ApiServices, dialect: string, operations: readonly Route[]): Site {
  const nativeApi = new native(services);
  const otherApis: Api[] = others.map((api) => new api(services));
  const only = [nativeApi, ...otherApis].find(({ name }) => name === dialect) ?? null;
  return new Site(nativeApi, otherApis, only, operations);
}
