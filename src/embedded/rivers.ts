/** One river of the sample database. */
export interface River {
  readonly name: string;
  /** ISO 3166 code of the country of its mouth. */
  readonly country: string;
  readonly length_km: number;
  /** Mean discharge at the mouth. */
  readonly flow_m3s: number;
  /** Longitude and latitude, in degrees. */
  readonly source: readonly [number, number];
  readonly mouth: readonly [number, number];
  /** The locations of its stations, downstream. */
  readonly places: readonly [string, string, string, string, string];
}

/** A row of the table below: name, country, length, discharge, source, mouth, places. */
type Row = [string, string, number, number, number, number, number, number, string];

const riverRows: readonly Row[] = [
  ['Rhein', 'NL', 1232.7, 2900, 8.67, 46.63, 4.1, 51.98, 'Chur, Konstanz, Straßburg, Köln, Nijmegen'],
  ['Donau', 'RO', 2850, 6500, 8.16, 48.1, 29.76, 45.22, 'Ulm, Linz, Győr, Нови Сад, Brăila'],
  ['Rhône', 'FR', 812, 1710, 8.38, 46.57, 4.85, 43.33, 'Sion, Genève, Lyon, Valence, Arles'],
  ['Loire', 'FR', 1006, 835, 4.22, 44.83, -2.17, 47.27, 'Roanne, Nevers, Orléans, Tours, Nantes'],
  ['Seine', 'FR', 777, 560, 4.72, 47.49, 0.23, 49.43, 'Troyes, Melun, Paris, Rouen, Honfleur'],
  ['Garonne', 'FR', 529, 650, 0.98, 42.61, -0.6, 45.04, 'Saint-Béat, Toulouse, Agen, Langon, Bordeaux'],
  ['Elbe', 'DE', 1094, 870, 15.54, 50.78, 8.73, 53.89, 'Děčín, Dresden, Magdeburg, Hamburg, Cuxhaven'],
  ['Weser', 'DE', 452, 327, 9.65, 51.42, 8.55, 53.53, 'Höxter, Hameln, Minden, Nienburg, Bremen'],
  ['Odra', 'PL', 840, 567, 17.52, 49.61, 14.53, 53.67, 'Ostrava, Opole, Wrocław, Głogów, Szczecin'],
  ['Wisła', 'PL', 1022, 1080, 19, 49.61, 18.95, 54.36, 'Kraków, Sandomierz, Warszawa, Toruń, Gdańsk'],
  ['Warta', 'PL', 808, 216, 19.48, 50.48, 14.61, 52.6, 'Częstochowa, Sieradz, Śrem, Poznań, Gorzów'],
  ['Po', 'IT', 652, 1540, 7.09, 44.7, 12.55, 44.95, 'Torino, Piacenza, Cremona, Ferrara, Adria'],
  ['Tevere', 'IT', 405, 239, 12.08, 43.79, 12.23, 41.74, 'Città di Castello, Umbertide, Orte, Roma, Ostia'],
  ['Ebro', 'ES', 930, 426, -4.4, 43.04, 0.86, 40.72, 'Miranda, Logroño, Zaragoza, Mequinenza, Tortosa'],
  ['Duero', 'PT', 897, 675, -2.88, 42.01, -8.68, 41.14, 'Soria, Aranda, Zamora, Peso da Régua, Porto'],
  ['Tejo', 'PT', 1007, 500, -1.7, 40.32, -9.4, 38.66, 'Aranjuez, Toledo, Alcántara, Santarém, Lisboa'],
  ['Guadalquivir', 'ES', 657, 164, -2.97, 37.84, -6.36, 36.78, 'Andújar, Córdoba, Palma del Río, Sevilla, Coria'],
  ['Thames', 'GB', 346, 65, -2.03, 51.69, 0.7, 51.5, 'Lechlade, Oxford, Reading, Teddington, Gravesend'],
  ['Severn', 'GB', 354, 107, -3.73, 52.49, -3, 51.4, 'Llanidloes, Shrewsbury, Worcester, Tewkesbury, Gloucester'],
  ['Shannon', 'IE', 360, 208, -7.92, 54.23, -9.68, 52.59, 'Carrick, Athlone, Banagher, Killaloe, Limerick'],
  ['Glomma', 'NO', 621, 698, 11.36, 62.53, 10.96, 59.2, 'Røros, Elverum, Kongsvinger, Årnes, Sarpsborg'],
  ['Torne älv', 'SE', 522, 388, 19.5, 68.2, 24.13, 65.81, 'Kiruna, Vittangi, Pajala, Övertorneå, Haparanda'],
  ['Kemijoki', 'FI', 550, 556, 28.9, 67.9, 24.53, 65.78, 'Savukoski, Kemijärvi, Rovaniemi, Tervola, Kemi'],
  ['Daugava', 'LV', 1020, 678, 32.6, 56.9, 24.03, 57.06, 'Віцебск, Daugavpils, Līvāni, Aizkraukle, Rīga'],
  ['Nemunas', 'LT', 937, 616, 27.13, 53.25, 21.23, 55.3, 'Гродна, Druskininkai, Alytus, Kaunas, Šilutė'],
  ['Дніпро', 'UA', 2201, 1670, 33.68, 55.87, 32.33, 46.5, 'Смоленск, Київ, Черкаси, Запоріжжя, Херсон'],
  ['Тиса', 'RS', 966, 792, 24.5, 48.07, 20.28, 45.14, 'Рахів, Tokaj, Szolnok, Szeged, Тител'],
  ['Sava', 'RS', 990, 1609, 13.73, 46.49, 20.45, 44.83, 'Kranj, Zagreb, Sisak, Шабац, Београд'],
  ['Марица', 'GR', 480, 234, 23.59, 42.14, 26.02, 40.73, 'Пазарджик, Пловдив, Edirne, Διδυμότειχο, Φέρες'],
  ['Αλιάκμονας', 'GR', 297, 73, 21, 40.5, 22.65, 40.47, 'Νεστόριο, Γρεβενά, Σέρβια, Βέροια, Μεθώνη'],
  ['Kızılırmak', 'TR', 1355, 184, 38.3, 39.8, 35.96, 41.74, 'Sivas, Kayseri, Nevşehir, Osmancık, Bafra'],
  ['النيل', 'EG', 6650, 2830, 29.32, -2.28, 31.1, 31.47, 'Jinja, جوبا, الخرطوم, أسوان, القاهرة'],
  ['गंगा', 'BD', 2525, 14720, 79.08, 30.98, 90.55, 23.2, 'ऋषिकेश, कानपुर, प्रयागराज, वाराणसी, पटना'],
  ['長江', 'CN', 6300, 30146, 91.1, 33.4, 121.97, 31.39, '宜宾, 重庆, 宜昌, 武汉, 南京'],
  ['信濃川', 'JP', 367, 503, 138.73, 35.9, 139.06, 37.95, '上田, 長野, 十日町, 長岡, 新潟'],
  ['한강', 'KR', 494, 670, 128.9, 37.2, 126.5, 37.75, '영월, 충주, 여주, 하남, 서울'],
  ['แม่น้ำเจ้าพระยา', 'TH', 372, 718, 100.14, 15.7, 100.6, 13.54, 'นครสวรรค์, ชัยนาท, สิงห์บุรี, อยุธยา, กรุงเทพ'],
  ['Murray', 'AU', 2508, 767, 148.2, -36.8, 138.88, -35.56, 'Albury, Echuca, Swan Hill, Mildura, Goolwa'],
  [
    'Mississippi',
    'US',
    3766,
    16792,
    -95.21,
    47.24,
    -89.25,
    29.15,
    'Saint Paul, Davenport, St. Louis, Memphis, Baton Rouge',
  ],
  ['Paraná', 'AR', 4880, 17290, -50.96, -20.09, -58.39, -34, 'Guaíra, Encarnación, Corrientes, Santa Fe, Rosario'],
];

/** The rivers of the sample database; a river's key there is its position here, counted from 1. */
export const riverList: readonly River[] = riverRows.map(
  ([name, country, length_km, flow_m3s, fromLongitude, fromLatitude, toLongitude, toLatitude, list]) => {
    const [first = '', second = '', third = '', fourth = '', fifth = ''] = list.split(', ');
    return {
      name,
      country,
      length_km,
      flow_m3s,
      source: [fromLongitude, fromLatitude],
      mouth: [toLongitude, toLatitude],
      places: [first, second, third, fourth, fifth],
    };
  },
);
