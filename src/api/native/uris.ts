/** The paths that answers hand out. A client takes them as they are and never builds one. */

export function pageUri(id: string, page: number): string {
  return `/v1/query/${id}/page/${page}`;
}

export function statsUri(id: string): string {
  return `/v1/query/${id}`;
}

export function finalUri(id: string): string {
  return `/v1/query/${id}/kill?delete=true`;
}

/** Of a kept result. */
export function resultUri(id: string): string {
  return `/v1/result/${id}`;
}

export function killUri(id: string): string {
  return `/v1/query/${id}/kill`;
}
