// @ts-nocheck
// Generated from the schema beside it by scripts/validators.mjs; change that, not this.
"use strict";
export const validate = validate10;
export default validate10;
const schema11 = {"$schema":"http://json-schema.org/draft-07/schema#","$comment":"The manifest of a kept result (manifest.ts). Times and durations are so small that they and their sums are dates, and timers can wait for them.","type":"object","required":["version","id","user","database","sessionId","sql","effect","isStandalone","process","madeAt","keepMs","endedAt","state","stats","rows","pages"],"properties":{"version":{"const":1},"id":{"type":"string"},"user":{"type":"string"},"database":{"type":"string"},"sessionId":{"type":"string"},"sql":{"type":["string","null"]},"effect":{"enum":["read","atomic","partial","compound"]},"isStandalone":{"type":"boolean"},"process":{"type":"object","required":["pid","identity"],"properties":{"pid":{"type":"integer","minimum":1},"identity":{"type":"string"}}},"madeAt":{"$ref":"#/definitions/time"},"keepMs":{"type":"number","minimum":0,"maximum":2147483647},"endedAt":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/time"}]},"state":{"type":"object","required":["name"],"oneOf":[{"properties":{"name":{"const":"Running"}}},{"required":["outcome"],"properties":{"name":{"const":"Succeeded"},"outcome":{"type":"object","required":["affectedRows","lastInsertId","warnings"],"properties":{"affectedRows":{"$ref":"#/definitions/digits"},"lastInsertId":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/digits"}]},"warnings":{"$ref":"#/definitions/count"}}}}},{"required":["failure"],"properties":{"name":{"const":"Failed"},"failure":{"type":"object","required":["code","sqlstate","message","outcome","retryable"],"properties":{"code":{"type":"integer"},"sqlstate":{"type":"string"},"message":{"type":"string"},"outcome":{"enum":["not_started","rolled_back","committed","unknown"]},"retryable":{"type":"boolean"}}}}}]},"stats":{"anyOf":[{"type":"null"},{"type":"object","required":["runningMs","scan","write","result","spill","queue"],"properties":{"runningMs":{"type":"number","minimum":0},"scan":{"type":"object","required":["rows","bytes","known","estimatedRows"],"properties":{"rows":{"$ref":"#/definitions/count"},"bytes":{"$ref":"#/definitions/count"},"known":{"type":"boolean"},"estimatedRows":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/count"}]}}},"write":{"$ref":"#/definitions/progress"},"result":{"$ref":"#/definitions/progress"},"spill":{"$ref":"#/definitions/progress"},"queue":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/count"}]}}}]},"rows":{"$ref":"#/definitions/count"},"pages":{"type":"object","required":["rows","format"],"properties":{"rows":{"type":"integer","minimum":1},"format":{"enum":["json","json, large integers as strings","json strings","json strings, NULL too"]}}}},"if":{"properties":{"state":{"properties":{"name":{"const":"Running"}}}}},"else":{"properties":{"endedAt":{"type":"number"}}},"definitions":{"time":{"type":"number","minimum":0,"maximum":4000000000000000},"count":{"type":"number","minimum":0},"digits":{"type":"string","pattern":"^[0-9]{1,20}$"},"progress":{"type":"object","required":["rows","bytes"],"properties":{"rows":{"$ref":"#/definitions/count"},"bytes":{"$ref":"#/definitions/count"}}}}};
const schema12 = {"type":"number","minimum":0,"maximum":4000000000000000};
const schema14 = {"type":"string","pattern":"^[0-9]{1,20}$"};
const schema16 = {"type":"number","minimum":0};
const pattern0 = new RegExp("^[0-9]{1,20}$", "u");
const schema20 = {"type":"object","required":["rows","bytes"],"properties":{"rows":{"$ref":"#/definitions/count"},"bytes":{"$ref":"#/definitions/count"}}};

function validate11(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if(((data.rows === undefined) && (missing0 = "rows")) || ((data.bytes === undefined) && (missing0 = "bytes"))){
validate11.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
if(data.rows !== undefined){
let data0 = data.rows;
const _errs1 = errors;
const _errs2 = errors;
if(errors === _errs2){
if((typeof data0 == "number") && (isFinite(data0))){
if(data0 < 0 || isNaN(data0)){
validate11.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
else {
validate11.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid0 = _errs1 === errors;
}
else {
var valid0 = true;
}
if(valid0){
if(data.bytes !== undefined){
let data1 = data.bytes;
const _errs4 = errors;
const _errs5 = errors;
if(errors === _errs5){
if((typeof data1 == "number") && (isFinite(data1))){
if(data1 < 0 || isNaN(data1)){
validate11.errors = [{instancePath:instancePath+"/bytes",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
else {
validate11.errors = [{instancePath:instancePath+"/bytes",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid0 = _errs4 === errors;
}
else {
var valid0 = true;
}
}
}
}
else {
validate11.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate11.errors = vErrors;
return errors === 0;
}


function validate10(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
const _errs2 = errors;
let valid0 = true;
const _errs3 = errors;
if(data && typeof data == "object" && !Array.isArray(data)){
if(data.state !== undefined){
let data0 = data.state;
if(data0 && typeof data0 == "object" && !Array.isArray(data0)){
if(data0.name !== undefined){
if("Running" !== data0.name){
const err0 = {};
if(vErrors === null){
vErrors = [err0];
}
else {
vErrors.push(err0);
}
errors++;
}
}
}
}
}
var _valid0 = _errs3 === errors;
errors = _errs2;
if(vErrors !== null){
if(_errs2){
vErrors.length = _errs2;
}
else {
vErrors = null;
}
}
if(!_valid0){
const _errs6 = errors;
if(data && typeof data == "object" && !Array.isArray(data)){
if(data.endedAt !== undefined){
let data2 = data.endedAt;
if(!((typeof data2 == "number") && (isFinite(data2)))){
validate10.errors = [{instancePath:instancePath+"/endedAt",schemaPath:"#/else/properties/endedAt/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
}
var _valid0 = _errs6 === errors;
valid0 = _valid0;
}
if(!valid0){
const err1 = {instancePath,schemaPath:"#/if",keyword:"if",params:{failingKeyword: "else"},message:"must match \"else\" schema"};
if(vErrors === null){
vErrors = [err1];
}
else {
vErrors.push(err1);
}
errors++;
validate10.errors = vErrors;
return false;
}
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
let missing0;
if(((((((((((((((((data.version === undefined) && (missing0 = "version")) || ((data.id === undefined) && (missing0 = "id"))) || ((data.user === undefined) && (missing0 = "user"))) || ((data.database === undefined) && (missing0 = "database"))) || ((data.sessionId === undefined) && (missing0 = "sessionId"))) || ((data.sql === undefined) && (missing0 = "sql"))) || ((data.effect === undefined) && (missing0 = "effect"))) || ((data.isStandalone === undefined) && (missing0 = "isStandalone"))) || ((data.process === undefined) && (missing0 = "process"))) || ((data.madeAt === undefined) && (missing0 = "madeAt"))) || ((data.keepMs === undefined) && (missing0 = "keepMs"))) || ((data.endedAt === undefined) && (missing0 = "endedAt"))) || ((data.state === undefined) && (missing0 = "state"))) || ((data.stats === undefined) && (missing0 = "stats"))) || ((data.rows === undefined) && (missing0 = "rows"))) || ((data.pages === undefined) && (missing0 = "pages"))){
validate10.errors = [{instancePath,schemaPath:"#/required",keyword:"required",params:{missingProperty: missing0},message:"must have required property '"+missing0+"'"}];
return false;
}
else {
if(data.version !== undefined){
const _errs9 = errors;
if(1 !== data.version){
validate10.errors = [{instancePath:instancePath+"/version",schemaPath:"#/properties/version/const",keyword:"const",params:{allowedValue: 1},message:"must be equal to constant"}];
return false;
}
var valid4 = _errs9 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.id !== undefined){
const _errs10 = errors;
if(typeof data.id !== "string"){
validate10.errors = [{instancePath:instancePath+"/id",schemaPath:"#/properties/id/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs10 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.user !== undefined){
const _errs12 = errors;
if(typeof data.user !== "string"){
validate10.errors = [{instancePath:instancePath+"/user",schemaPath:"#/properties/user/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs12 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.database !== undefined){
const _errs14 = errors;
if(typeof data.database !== "string"){
validate10.errors = [{instancePath:instancePath+"/database",schemaPath:"#/properties/database/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs14 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.sessionId !== undefined){
const _errs16 = errors;
if(typeof data.sessionId !== "string"){
validate10.errors = [{instancePath:instancePath+"/sessionId",schemaPath:"#/properties/sessionId/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid4 = _errs16 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.sql !== undefined){
let data8 = data.sql;
const _errs18 = errors;
if((typeof data8 !== "string") && (data8 !== null)){
validate10.errors = [{instancePath:instancePath+"/sql",schemaPath:"#/properties/sql/type",keyword:"type",params:{type: schema11.properties.sql.type},message:"must be string,null"}];
return false;
}
var valid4 = _errs18 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.effect !== undefined){
let data9 = data.effect;
const _errs20 = errors;
if(!((((data9 === "read") || (data9 === "atomic")) || (data9 === "partial")) || (data9 === "compound"))){
validate10.errors = [{instancePath:instancePath+"/effect",schemaPath:"#/properties/effect/enum",keyword:"enum",params:{allowedValues: schema11.properties.effect.enum},message:"must be equal to one of the allowed values"}];
return false;
}
var valid4 = _errs20 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.isStandalone !== undefined){
const _errs21 = errors;
if(typeof data.isStandalone !== "boolean"){
validate10.errors = [{instancePath:instancePath+"/isStandalone",schemaPath:"#/properties/isStandalone/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"}];
return false;
}
var valid4 = _errs21 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.process !== undefined){
let data11 = data.process;
const _errs23 = errors;
if(errors === _errs23){
if(data11 && typeof data11 == "object" && !Array.isArray(data11)){
let missing1;
if(((data11.pid === undefined) && (missing1 = "pid")) || ((data11.identity === undefined) && (missing1 = "identity"))){
validate10.errors = [{instancePath:instancePath+"/process",schemaPath:"#/properties/process/required",keyword:"required",params:{missingProperty: missing1},message:"must have required property '"+missing1+"'"}];
return false;
}
else {
if(data11.pid !== undefined){
let data12 = data11.pid;
const _errs25 = errors;
if(!(((typeof data12 == "number") && (!(data12 % 1) && !isNaN(data12))) && (isFinite(data12)))){
validate10.errors = [{instancePath:instancePath+"/process/pid",schemaPath:"#/properties/process/properties/pid/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs25){
if((typeof data12 == "number") && (isFinite(data12))){
if(data12 < 1 || isNaN(data12)){
validate10.errors = [{instancePath:instancePath+"/process/pid",schemaPath:"#/properties/process/properties/pid/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
var valid5 = _errs25 === errors;
}
else {
var valid5 = true;
}
if(valid5){
if(data11.identity !== undefined){
const _errs27 = errors;
if(typeof data11.identity !== "string"){
validate10.errors = [{instancePath:instancePath+"/process/identity",schemaPath:"#/properties/process/properties/identity/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid5 = _errs27 === errors;
}
else {
var valid5 = true;
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/process",schemaPath:"#/properties/process/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid4 = _errs23 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.madeAt !== undefined){
let data14 = data.madeAt;
const _errs29 = errors;
const _errs30 = errors;
if(errors === _errs30){
if((typeof data14 == "number") && (isFinite(data14))){
if(data14 > 4000000000000000 || isNaN(data14)){
validate10.errors = [{instancePath:instancePath+"/madeAt",schemaPath:"#/definitions/time/maximum",keyword:"maximum",params:{comparison: "<=", limit: 4000000000000000},message:"must be <= 4000000000000000"}];
return false;
}
else {
if(data14 < 0 || isNaN(data14)){
validate10.errors = [{instancePath:instancePath+"/madeAt",schemaPath:"#/definitions/time/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/madeAt",schemaPath:"#/definitions/time/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid4 = _errs29 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.keepMs !== undefined){
let data15 = data.keepMs;
const _errs32 = errors;
if(errors === _errs32){
if((typeof data15 == "number") && (isFinite(data15))){
if(data15 > 2147483647 || isNaN(data15)){
validate10.errors = [{instancePath:instancePath+"/keepMs",schemaPath:"#/properties/keepMs/maximum",keyword:"maximum",params:{comparison: "<=", limit: 2147483647},message:"must be <= 2147483647"}];
return false;
}
else {
if(data15 < 0 || isNaN(data15)){
validate10.errors = [{instancePath:instancePath+"/keepMs",schemaPath:"#/properties/keepMs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/keepMs",schemaPath:"#/properties/keepMs/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid4 = _errs32 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.endedAt !== undefined){
let data16 = data.endedAt;
const _errs34 = errors;
const _errs35 = errors;
let valid7 = false;
const _errs36 = errors;
if(data16 !== null){
const err2 = {instancePath:instancePath+"/endedAt",schemaPath:"#/properties/endedAt/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err2];
}
else {
vErrors.push(err2);
}
errors++;
}
var _valid1 = _errs36 === errors;
valid7 = valid7 || _valid1;
if(!valid7){
const _errs38 = errors;
const _errs39 = errors;
if(errors === _errs39){
if((typeof data16 == "number") && (isFinite(data16))){
if(data16 > 4000000000000000 || isNaN(data16)){
const err3 = {instancePath:instancePath+"/endedAt",schemaPath:"#/definitions/time/maximum",keyword:"maximum",params:{comparison: "<=", limit: 4000000000000000},message:"must be <= 4000000000000000"};
if(vErrors === null){
vErrors = [err3];
}
else {
vErrors.push(err3);
}
errors++;
}
else {
if(data16 < 0 || isNaN(data16)){
const err4 = {instancePath:instancePath+"/endedAt",schemaPath:"#/definitions/time/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err4];
}
else {
vErrors.push(err4);
}
errors++;
}
}
}
else {
const err5 = {instancePath:instancePath+"/endedAt",schemaPath:"#/definitions/time/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err5];
}
else {
vErrors.push(err5);
}
errors++;
}
}
var _valid1 = _errs38 === errors;
valid7 = valid7 || _valid1;
}
if(!valid7){
const err6 = {instancePath:instancePath+"/endedAt",schemaPath:"#/properties/endedAt/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err6];
}
else {
vErrors.push(err6);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs35;
if(vErrors !== null){
if(_errs35){
vErrors.length = _errs35;
}
else {
vErrors = null;
}
}
}
var valid4 = _errs34 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.state !== undefined){
let data17 = data.state;
const _errs41 = errors;
const _errs43 = errors;
let valid9 = false;
let passing0 = null;
const _errs44 = errors;
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
if(data17.name !== undefined){
if("Running" !== data17.name){
const err7 = {instancePath:instancePath+"/state/name",schemaPath:"#/properties/state/oneOf/0/properties/name/const",keyword:"const",params:{allowedValue: "Running"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err7];
}
else {
vErrors.push(err7);
}
errors++;
}
}
}
var _valid2 = _errs44 === errors;
if(_valid2){
valid9 = true;
passing0 = 0;
}
const _errs46 = errors;
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
let missing2;
if((data17.outcome === undefined) && (missing2 = "outcome")){
const err8 = {instancePath:instancePath+"/state",schemaPath:"#/properties/state/oneOf/1/required",keyword:"required",params:{missingProperty: missing2},message:"must have required property '"+missing2+"'"};
if(vErrors === null){
vErrors = [err8];
}
else {
vErrors.push(err8);
}
errors++;
}
else {
if(data17.name !== undefined){
const _errs47 = errors;
if("Succeeded" !== data17.name){
const err9 = {instancePath:instancePath+"/state/name",schemaPath:"#/properties/state/oneOf/1/properties/name/const",keyword:"const",params:{allowedValue: "Succeeded"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err9];
}
else {
vErrors.push(err9);
}
errors++;
}
var valid11 = _errs47 === errors;
}
else {
var valid11 = true;
}
if(valid11){
if(data17.outcome !== undefined){
let data20 = data17.outcome;
const _errs48 = errors;
if(errors === _errs48){
if(data20 && typeof data20 == "object" && !Array.isArray(data20)){
let missing3;
if((((data20.affectedRows === undefined) && (missing3 = "affectedRows")) || ((data20.lastInsertId === undefined) && (missing3 = "lastInsertId"))) || ((data20.warnings === undefined) && (missing3 = "warnings"))){
const err10 = {instancePath:instancePath+"/state/outcome",schemaPath:"#/properties/state/oneOf/1/properties/outcome/required",keyword:"required",params:{missingProperty: missing3},message:"must have required property '"+missing3+"'"};
if(vErrors === null){
vErrors = [err10];
}
else {
vErrors.push(err10);
}
errors++;
}
else {
if(data20.affectedRows !== undefined){
let data21 = data20.affectedRows;
const _errs50 = errors;
const _errs51 = errors;
if(errors === _errs51){
if(typeof data21 === "string"){
if(!pattern0.test(data21)){
const err11 = {instancePath:instancePath+"/state/outcome/affectedRows",schemaPath:"#/definitions/digits/pattern",keyword:"pattern",params:{pattern: "^[0-9]{1,20}$"},message:"must match pattern \""+"^[0-9]{1,20}$"+"\""};
if(vErrors === null){
vErrors = [err11];
}
else {
vErrors.push(err11);
}
errors++;
}
}
else {
const err12 = {instancePath:instancePath+"/state/outcome/affectedRows",schemaPath:"#/definitions/digits/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err12];
}
else {
vErrors.push(err12);
}
errors++;
}
}
var valid12 = _errs50 === errors;
}
else {
var valid12 = true;
}
if(valid12){
if(data20.lastInsertId !== undefined){
let data22 = data20.lastInsertId;
const _errs53 = errors;
const _errs54 = errors;
let valid14 = false;
const _errs55 = errors;
if(data22 !== null){
const err13 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/properties/state/oneOf/1/properties/outcome/properties/lastInsertId/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err13];
}
else {
vErrors.push(err13);
}
errors++;
}
var _valid3 = _errs55 === errors;
valid14 = valid14 || _valid3;
if(!valid14){
const _errs57 = errors;
const _errs58 = errors;
if(errors === _errs58){
if(typeof data22 === "string"){
if(!pattern0.test(data22)){
const err14 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/definitions/digits/pattern",keyword:"pattern",params:{pattern: "^[0-9]{1,20}$"},message:"must match pattern \""+"^[0-9]{1,20}$"+"\""};
if(vErrors === null){
vErrors = [err14];
}
else {
vErrors.push(err14);
}
errors++;
}
}
else {
const err15 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/definitions/digits/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err15];
}
else {
vErrors.push(err15);
}
errors++;
}
}
var _valid3 = _errs57 === errors;
valid14 = valid14 || _valid3;
}
if(!valid14){
const err16 = {instancePath:instancePath+"/state/outcome/lastInsertId",schemaPath:"#/properties/state/oneOf/1/properties/outcome/properties/lastInsertId/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err16];
}
else {
vErrors.push(err16);
}
errors++;
}
else {
errors = _errs54;
if(vErrors !== null){
if(_errs54){
vErrors.length = _errs54;
}
else {
vErrors = null;
}
}
}
var valid12 = _errs53 === errors;
}
else {
var valid12 = true;
}
if(valid12){
if(data20.warnings !== undefined){
let data23 = data20.warnings;
const _errs60 = errors;
const _errs61 = errors;
if(errors === _errs61){
if((typeof data23 == "number") && (isFinite(data23))){
if(data23 < 0 || isNaN(data23)){
const err17 = {instancePath:instancePath+"/state/outcome/warnings",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err17];
}
else {
vErrors.push(err17);
}
errors++;
}
}
else {
const err18 = {instancePath:instancePath+"/state/outcome/warnings",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err18];
}
else {
vErrors.push(err18);
}
errors++;
}
}
var valid12 = _errs60 === errors;
}
else {
var valid12 = true;
}
}
}
}
}
else {
const err19 = {instancePath:instancePath+"/state/outcome",schemaPath:"#/properties/state/oneOf/1/properties/outcome/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err19];
}
else {
vErrors.push(err19);
}
errors++;
}
}
var valid11 = _errs48 === errors;
}
else {
var valid11 = true;
}
}
}
}
var _valid2 = _errs46 === errors;
if(_valid2 && valid9){
valid9 = false;
passing0 = [passing0, 1];
}
else {
if(_valid2){
valid9 = true;
passing0 = 1;
}
const _errs63 = errors;
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
let missing4;
if((data17.failure === undefined) && (missing4 = "failure")){
const err20 = {instancePath:instancePath+"/state",schemaPath:"#/properties/state/oneOf/2/required",keyword:"required",params:{missingProperty: missing4},message:"must have required property '"+missing4+"'"};
if(vErrors === null){
vErrors = [err20];
}
else {
vErrors.push(err20);
}
errors++;
}
else {
if(data17.name !== undefined){
const _errs64 = errors;
if("Failed" !== data17.name){
const err21 = {instancePath:instancePath+"/state/name",schemaPath:"#/properties/state/oneOf/2/properties/name/const",keyword:"const",params:{allowedValue: "Failed"},message:"must be equal to constant"};
if(vErrors === null){
vErrors = [err21];
}
else {
vErrors.push(err21);
}
errors++;
}
var valid17 = _errs64 === errors;
}
else {
var valid17 = true;
}
if(valid17){
if(data17.failure !== undefined){
let data25 = data17.failure;
const _errs65 = errors;
if(errors === _errs65){
if(data25 && typeof data25 == "object" && !Array.isArray(data25)){
let missing5;
if((((((data25.code === undefined) && (missing5 = "code")) || ((data25.sqlstate === undefined) && (missing5 = "sqlstate"))) || ((data25.message === undefined) && (missing5 = "message"))) || ((data25.outcome === undefined) && (missing5 = "outcome"))) || ((data25.retryable === undefined) && (missing5 = "retryable"))){
const err22 = {instancePath:instancePath+"/state/failure",schemaPath:"#/properties/state/oneOf/2/properties/failure/required",keyword:"required",params:{missingProperty: missing5},message:"must have required property '"+missing5+"'"};
if(vErrors === null){
vErrors = [err22];
}
else {
vErrors.push(err22);
}
errors++;
}
else {
if(data25.code !== undefined){
let data26 = data25.code;
const _errs67 = errors;
if(!(((typeof data26 == "number") && (!(data26 % 1) && !isNaN(data26))) && (isFinite(data26)))){
const err23 = {instancePath:instancePath+"/state/failure/code",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/code/type",keyword:"type",params:{type: "integer"},message:"must be integer"};
if(vErrors === null){
vErrors = [err23];
}
else {
vErrors.push(err23);
}
errors++;
}
var valid18 = _errs67 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.sqlstate !== undefined){
const _errs69 = errors;
if(typeof data25.sqlstate !== "string"){
const err24 = {instancePath:instancePath+"/state/failure/sqlstate",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/sqlstate/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err24];
}
else {
vErrors.push(err24);
}
errors++;
}
var valid18 = _errs69 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.message !== undefined){
const _errs71 = errors;
if(typeof data25.message !== "string"){
const err25 = {instancePath:instancePath+"/state/failure/message",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/message/type",keyword:"type",params:{type: "string"},message:"must be string"};
if(vErrors === null){
vErrors = [err25];
}
else {
vErrors.push(err25);
}
errors++;
}
var valid18 = _errs71 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.outcome !== undefined){
let data29 = data25.outcome;
const _errs73 = errors;
if(!((((data29 === "not_started") || (data29 === "rolled_back")) || (data29 === "committed")) || (data29 === "unknown"))){
const err26 = {instancePath:instancePath+"/state/failure/outcome",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/outcome/enum",keyword:"enum",params:{allowedValues: schema11.properties.state.oneOf[2].properties.failure.properties.outcome.enum},message:"must be equal to one of the allowed values"};
if(vErrors === null){
vErrors = [err26];
}
else {
vErrors.push(err26);
}
errors++;
}
var valid18 = _errs73 === errors;
}
else {
var valid18 = true;
}
if(valid18){
if(data25.retryable !== undefined){
const _errs74 = errors;
if(typeof data25.retryable !== "boolean"){
const err27 = {instancePath:instancePath+"/state/failure/retryable",schemaPath:"#/properties/state/oneOf/2/properties/failure/properties/retryable/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"};
if(vErrors === null){
vErrors = [err27];
}
else {
vErrors.push(err27);
}
errors++;
}
var valid18 = _errs74 === errors;
}
else {
var valid18 = true;
}
}
}
}
}
}
}
else {
const err28 = {instancePath:instancePath+"/state/failure",schemaPath:"#/properties/state/oneOf/2/properties/failure/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err28];
}
else {
vErrors.push(err28);
}
errors++;
}
}
var valid17 = _errs65 === errors;
}
else {
var valid17 = true;
}
}
}
}
var _valid2 = _errs63 === errors;
if(_valid2 && valid9){
valid9 = false;
passing0 = [passing0, 2];
}
else {
if(_valid2){
valid9 = true;
passing0 = 2;
}
}
}
if(!valid9){
const err29 = {instancePath:instancePath+"/state",schemaPath:"#/properties/state/oneOf",keyword:"oneOf",params:{passingSchemas: passing0},message:"must match exactly one schema in oneOf"};
if(vErrors === null){
vErrors = [err29];
}
else {
vErrors.push(err29);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs43;
if(vErrors !== null){
if(_errs43){
vErrors.length = _errs43;
}
else {
vErrors = null;
}
}
}
if(errors === _errs41){
if(data17 && typeof data17 == "object" && !Array.isArray(data17)){
let missing6;
if((data17.name === undefined) && (missing6 = "name")){
validate10.errors = [{instancePath:instancePath+"/state",schemaPath:"#/properties/state/required",keyword:"required",params:{missingProperty: missing6},message:"must have required property '"+missing6+"'"}];
return false;
}
}
else {
validate10.errors = [{instancePath:instancePath+"/state",schemaPath:"#/properties/state/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid4 = _errs41 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.stats !== undefined){
let data31 = data.stats;
const _errs76 = errors;
const _errs77 = errors;
let valid19 = false;
const _errs78 = errors;
if(data31 !== null){
const err30 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err30];
}
else {
vErrors.push(err30);
}
errors++;
}
var _valid4 = _errs78 === errors;
valid19 = valid19 || _valid4;
if(!valid19){
const _errs80 = errors;
if(errors === _errs80){
if(data31 && typeof data31 == "object" && !Array.isArray(data31)){
let missing7;
if(((((((data31.runningMs === undefined) && (missing7 = "runningMs")) || ((data31.scan === undefined) && (missing7 = "scan"))) || ((data31.write === undefined) && (missing7 = "write"))) || ((data31.result === undefined) && (missing7 = "result"))) || ((data31.spill === undefined) && (missing7 = "spill"))) || ((data31.queue === undefined) && (missing7 = "queue"))){
const err31 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf/1/required",keyword:"required",params:{missingProperty: missing7},message:"must have required property '"+missing7+"'"};
if(vErrors === null){
vErrors = [err31];
}
else {
vErrors.push(err31);
}
errors++;
}
else {
if(data31.runningMs !== undefined){
let data32 = data31.runningMs;
const _errs82 = errors;
if(errors === _errs82){
if((typeof data32 == "number") && (isFinite(data32))){
if(data32 < 0 || isNaN(data32)){
const err32 = {instancePath:instancePath+"/stats/runningMs",schemaPath:"#/properties/stats/anyOf/1/properties/runningMs/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err32];
}
else {
vErrors.push(err32);
}
errors++;
}
}
else {
const err33 = {instancePath:instancePath+"/stats/runningMs",schemaPath:"#/properties/stats/anyOf/1/properties/runningMs/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err33];
}
else {
vErrors.push(err33);
}
errors++;
}
}
var valid20 = _errs82 === errors;
}
else {
var valid20 = true;
}
if(valid20){
if(data31.scan !== undefined){
let data33 = data31.scan;
const _errs84 = errors;
if(errors === _errs84){
if(data33 && typeof data33 == "object" && !Array.isArray(data33)){
let missing8;
if(((((data33.rows === undefined) && (missing8 = "rows")) || ((data33.bytes === undefined) && (missing8 = "bytes"))) || ((data33.known === undefined) && (missing8 = "known"))) || ((data33.estimatedRows === undefined) && (missing8 = "estimatedRows"))){
const err34 = {instancePath:instancePath+"/stats/scan",schemaPath:"#/properties/stats/anyOf/1/properties/scan/required",keyword:"required",params:{missingProperty: missing8},message:"must have required property '"+missing8+"'"};
if(vErrors === null){
vErrors = [err34];
}
else {
vErrors.push(err34);
}
errors++;
}
else {
if(data33.rows !== undefined){
let data34 = data33.rows;
const _errs86 = errors;
const _errs87 = errors;
if(errors === _errs87){
if((typeof data34 == "number") && (isFinite(data34))){
if(data34 < 0 || isNaN(data34)){
const err35 = {instancePath:instancePath+"/stats/scan/rows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err35];
}
else {
vErrors.push(err35);
}
errors++;
}
}
else {
const err36 = {instancePath:instancePath+"/stats/scan/rows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err36];
}
else {
vErrors.push(err36);
}
errors++;
}
}
var valid21 = _errs86 === errors;
}
else {
var valid21 = true;
}
if(valid21){
if(data33.bytes !== undefined){
let data35 = data33.bytes;
const _errs89 = errors;
const _errs90 = errors;
if(errors === _errs90){
if((typeof data35 == "number") && (isFinite(data35))){
if(data35 < 0 || isNaN(data35)){
const err37 = {instancePath:instancePath+"/stats/scan/bytes",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err37];
}
else {
vErrors.push(err37);
}
errors++;
}
}
else {
const err38 = {instancePath:instancePath+"/stats/scan/bytes",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err38];
}
else {
vErrors.push(err38);
}
errors++;
}
}
var valid21 = _errs89 === errors;
}
else {
var valid21 = true;
}
if(valid21){
if(data33.known !== undefined){
const _errs92 = errors;
if(typeof data33.known !== "boolean"){
const err39 = {instancePath:instancePath+"/stats/scan/known",schemaPath:"#/properties/stats/anyOf/1/properties/scan/properties/known/type",keyword:"type",params:{type: "boolean"},message:"must be boolean"};
if(vErrors === null){
vErrors = [err39];
}
else {
vErrors.push(err39);
}
errors++;
}
var valid21 = _errs92 === errors;
}
else {
var valid21 = true;
}
if(valid21){
if(data33.estimatedRows !== undefined){
let data37 = data33.estimatedRows;
const _errs94 = errors;
const _errs95 = errors;
let valid24 = false;
const _errs96 = errors;
if(data37 !== null){
const err40 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/properties/stats/anyOf/1/properties/scan/properties/estimatedRows/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err40];
}
else {
vErrors.push(err40);
}
errors++;
}
var _valid5 = _errs96 === errors;
valid24 = valid24 || _valid5;
if(!valid24){
const _errs98 = errors;
const _errs99 = errors;
if(errors === _errs99){
if((typeof data37 == "number") && (isFinite(data37))){
if(data37 < 0 || isNaN(data37)){
const err41 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err41];
}
else {
vErrors.push(err41);
}
errors++;
}
}
else {
const err42 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err42];
}
else {
vErrors.push(err42);
}
errors++;
}
}
var _valid5 = _errs98 === errors;
valid24 = valid24 || _valid5;
}
if(!valid24){
const err43 = {instancePath:instancePath+"/stats/scan/estimatedRows",schemaPath:"#/properties/stats/anyOf/1/properties/scan/properties/estimatedRows/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err43];
}
else {
vErrors.push(err43);
}
errors++;
}
else {
errors = _errs95;
if(vErrors !== null){
if(_errs95){
vErrors.length = _errs95;
}
else {
vErrors = null;
}
}
}
var valid21 = _errs94 === errors;
}
else {
var valid21 = true;
}
}
}
}
}
}
else {
const err44 = {instancePath:instancePath+"/stats/scan",schemaPath:"#/properties/stats/anyOf/1/properties/scan/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err44];
}
else {
vErrors.push(err44);
}
errors++;
}
}
var valid20 = _errs84 === errors;
}
else {
var valid20 = true;
}
if(valid20){
if(data31.write !== undefined){
const _errs101 = errors;
if(!(validate11(data31.write, {instancePath:instancePath+"/stats/write",parentData:data31,parentDataProperty:"write",rootData}))){
vErrors = vErrors === null ? validate11.errors : vErrors.concat(validate11.errors);
errors = vErrors.length;
}
var valid20 = _errs101 === errors;
}
else {
var valid20 = true;
}
if(valid20){
if(data31.result !== undefined){
const _errs102 = errors;
if(!(validate11(data31.result, {instancePath:instancePath+"/stats/result",parentData:data31,parentDataProperty:"result",rootData}))){
vErrors = vErrors === null ? validate11.errors : vErrors.concat(validate11.errors);
errors = vErrors.length;
}
var valid20 = _errs102 === errors;
}
else {
var valid20 = true;
}
if(valid20){
if(data31.spill !== undefined){
const _errs103 = errors;
if(!(validate11(data31.spill, {instancePath:instancePath+"/stats/spill",parentData:data31,parentDataProperty:"spill",rootData}))){
vErrors = vErrors === null ? validate11.errors : vErrors.concat(validate11.errors);
errors = vErrors.length;
}
var valid20 = _errs103 === errors;
}
else {
var valid20 = true;
}
if(valid20){
if(data31.queue !== undefined){
let data41 = data31.queue;
const _errs104 = errors;
const _errs105 = errors;
let valid26 = false;
const _errs106 = errors;
if(data41 !== null){
const err45 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/properties/stats/anyOf/1/properties/queue/anyOf/0/type",keyword:"type",params:{type: "null"},message:"must be null"};
if(vErrors === null){
vErrors = [err45];
}
else {
vErrors.push(err45);
}
errors++;
}
var _valid6 = _errs106 === errors;
valid26 = valid26 || _valid6;
if(!valid26){
const _errs108 = errors;
const _errs109 = errors;
if(errors === _errs109){
if((typeof data41 == "number") && (isFinite(data41))){
if(data41 < 0 || isNaN(data41)){
const err46 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"};
if(vErrors === null){
vErrors = [err46];
}
else {
vErrors.push(err46);
}
errors++;
}
}
else {
const err47 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"};
if(vErrors === null){
vErrors = [err47];
}
else {
vErrors.push(err47);
}
errors++;
}
}
var _valid6 = _errs108 === errors;
valid26 = valid26 || _valid6;
}
if(!valid26){
const err48 = {instancePath:instancePath+"/stats/queue",schemaPath:"#/properties/stats/anyOf/1/properties/queue/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err48];
}
else {
vErrors.push(err48);
}
errors++;
}
else {
errors = _errs105;
if(vErrors !== null){
if(_errs105){
vErrors.length = _errs105;
}
else {
vErrors = null;
}
}
}
var valid20 = _errs104 === errors;
}
else {
var valid20 = true;
}
}
}
}
}
}
}
}
else {
const err49 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf/1/type",keyword:"type",params:{type: "object"},message:"must be object"};
if(vErrors === null){
vErrors = [err49];
}
else {
vErrors.push(err49);
}
errors++;
}
}
var _valid4 = _errs80 === errors;
valid19 = valid19 || _valid4;
}
if(!valid19){
const err50 = {instancePath:instancePath+"/stats",schemaPath:"#/properties/stats/anyOf",keyword:"anyOf",params:{},message:"must match a schema in anyOf"};
if(vErrors === null){
vErrors = [err50];
}
else {
vErrors.push(err50);
}
errors++;
validate10.errors = vErrors;
return false;
}
else {
errors = _errs77;
if(vErrors !== null){
if(_errs77){
vErrors.length = _errs77;
}
else {
vErrors = null;
}
}
}
var valid4 = _errs76 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.rows !== undefined){
let data42 = data.rows;
const _errs111 = errors;
const _errs112 = errors;
if(errors === _errs112){
if((typeof data42 == "number") && (isFinite(data42))){
if(data42 < 0 || isNaN(data42)){
validate10.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/minimum",keyword:"minimum",params:{comparison: ">=", limit: 0},message:"must be >= 0"}];
return false;
}
}
else {
validate10.errors = [{instancePath:instancePath+"/rows",schemaPath:"#/definitions/count/type",keyword:"type",params:{type: "number"},message:"must be number"}];
return false;
}
}
var valid4 = _errs111 === errors;
}
else {
var valid4 = true;
}
if(valid4){
if(data.pages !== undefined){
let data43 = data.pages;
const _errs114 = errors;
if(errors === _errs114){
if(data43 && typeof data43 == "object" && !Array.isArray(data43)){
let missing9;
if(((data43.rows === undefined) && (missing9 = "rows")) || ((data43.format === undefined) && (missing9 = "format"))){
validate10.errors = [{instancePath:instancePath+"/pages",schemaPath:"#/properties/pages/required",keyword:"required",params:{missingProperty: missing9},message:"must have required property '"+missing9+"'"}];
return false;
}
else {
if(data43.rows !== undefined){
let data44 = data43.rows;
const _errs116 = errors;
if(!(((typeof data44 == "number") && (!(data44 % 1) && !isNaN(data44))) && (isFinite(data44)))){
validate10.errors = [{instancePath:instancePath+"/pages/rows",schemaPath:"#/properties/pages/properties/rows/type",keyword:"type",params:{type: "integer"},message:"must be integer"}];
return false;
}
if(errors === _errs116){
if((typeof data44 == "number") && (isFinite(data44))){
if(data44 < 1 || isNaN(data44)){
validate10.errors = [{instancePath:instancePath+"/pages/rows",schemaPath:"#/properties/pages/properties/rows/minimum",keyword:"minimum",params:{comparison: ">=", limit: 1},message:"must be >= 1"}];
return false;
}
}
}
var valid29 = _errs116 === errors;
}
else {
var valid29 = true;
}
if(valid29){
if(data43.format !== undefined){
let data45 = data43.format;
const _errs118 = errors;
if(!((((data45 === "json") || (data45 === "json, large integers as strings")) || (data45 === "json strings")) || (data45 === "json strings, NULL too"))){
validate10.errors = [{instancePath:instancePath+"/pages/format",schemaPath:"#/properties/pages/properties/format/enum",keyword:"enum",params:{allowedValues: schema11.properties.pages.properties.format.enum},message:"must be equal to one of the allowed values"}];
return false;
}
var valid29 = _errs118 === errors;
}
else {
var valid29 = true;
}
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/pages",schemaPath:"#/properties/pages/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
var valid4 = _errs114 === errors;
}
else {
var valid4 = true;
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
}
else {
validate10.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate10.errors = vErrors;
return errors === 0;
}
