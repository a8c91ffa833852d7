/** The paths that answers hand out. None has a query string, since some clients escape its question mark. */

export function pageUri(id: string, page: number): string {
  return `/v1/query/${id}/page/${page}`;
}

export function statsUri(id: string): string {
  return `/v1/query/${id}`;
}

export function finalUri(id: string): string {
  return `/v1/query/${id}/final`;
}

export function killUri(id: string): string {
  return `/v1/query/${id}/kill`;
}
